// SPDX-License-Identifier: Apache-2.0
// Hands a request's events from engine threads to the connection that answers it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.hpp"

namespace cairn::http {

/// Filled by sinks on engine threads, emptied on the connection's strand. Holds no more than a
/// limit while the connection is stuck in a write; beyond it `on_overflow` runs on the strand,
/// once. After close() events are dropped and nothing of the server is referred to, so a sink may
/// outlive it.
class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  struct Item {
    std::size_t prompt = 0;
    Event event;
  };

  Mailbox(boost::asio::any_io_executor strand, std::size_t limit_bytes,
          std::function<void()> on_overflow);

  /// For prompt `prompt` of the answer. Any thread; never throws.
  EventSink sink(std::size_t prompt);

  // On the strand only:
  /// Returns when there are events or interrupt() was called.
  boost::asio::awaitable<void> wait();
  std::vector<Item> take();
  void interrupt();
  bool interrupted() const { return interrupted_; }
  void close();

 private:
  void push(std::size_t prompt, Event event);
  void woken();

  std::mutex mutex_;  // guards what sinks touch: the next six
  std::optional<boost::asio::any_io_executor> strand_;
  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  const std::size_t limit_bytes_;
  bool wake_posted_ = false;
  bool overflowed_ = false;

  std::optional<boost::asio::steady_timer> timer_;
  std::function<void()> on_overflow_;
  bool interrupted_ = false;
};

}  // namespace cairn::http
