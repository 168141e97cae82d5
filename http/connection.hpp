// SPDX-License-Identifier: Apache-2.0
// One client connection: reads requests, answers them in order.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/mailbox.hpp"
#include "http/reply.hpp"
#include "http/routes.hpp"
#include "http/state.hpp"

namespace cairn::http {

/// A request as it was read.
struct Request {
  std::string method;
  std::string target;
  std::string authorization;
  std::string body;
  std::unique_ptr<BodyShare> share;  // of the memory for bodies
  bool http_1_0 = false;
  bool keep_alive = true;
};

/// Threads for what takes too long for those of the connections.
struct WorkThreads {
  explicit WorkThreads(int text_threads) : text(static_cast<std::size_t>(text_threads)) {}
  void join() {
    text.join();
    waiting.join();
  }
  boost::asio::thread_pool text;  // parses bodies, tokenizes
  // Waits for the cache: one call of each kind has its answer at a time (Engine::drop_cache,
  // plan_json), a further one is refused at once.
  boost::asio::thread_pool waiting{2};
};

/// Everything happens on the socket's strand; other threads only post to it. A coroutine holds the
/// object alive.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  Connection(Socket socket, std::shared_ptr<State> state, WorkThreads& threads);

  /// Until the client or the server ends it. Does not throw.
  boost::asio::awaitable<void> run();
  /// One 503 and the end: the server has too many connections.
  boost::asio::awaitable<void> refuse();

  /// Thread-safe. Closes it now if it waits for a request (`only_idle`) or whatever it does.
  void close(bool only_idle);

  boost::asio::any_io_executor strand() { return socket_.get_executor(); }

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  struct Reading;
  struct Generation;

  // connection.cpp
  Awaitable<void> serve_requests();
  Awaitable<std::optional<Request>> read_request();
  Awaitable<bool> header_done(Reading& reading);
  Awaitable<bool> read_more();
  Awaitable<bool> reject(const Reply& reply);
  Awaitable<bool> write(std::string text);
  Awaitable<void> linger();
  Awaitable<bool> serve(Request request);
  Awaitable<bool> send(const Reply& reply, const Framing& framing);
  Awaitable<bool> write_and_keep(std::string text, bool keep_alive);
  Framing framing_for(const Request& request) const;
  void arm(std::chrono::milliseconds time);
  void disarm();
  void close_now();

  // generation.cpp
  Awaitable<bool> generate(Request request, bool chat, Framing framing);
  Awaitable<std::optional<Reply>> submit(Generation& generation, Request request, bool chat);
  Awaitable<bool> answer(Generation& generation, const Framing& framing);
  Awaitable<bool> stream_on(Generation& generation, const Framing& framing);
  void cancel(const Generation& generation);
  void watch(std::shared_ptr<Mailbox> mailbox);
  Awaitable<void> read_ahead(std::shared_ptr<Mailbox> mailbox);
  Awaitable<void> stop_watching();

  Socket socket_;
  std::shared_ptr<State> state_;
  WorkThreads& threads_;
  boost::beast::flat_buffer buffer_;  // received, not yet understood
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer watch_ended_;
  unsigned deadline_epoch_ = 0;  // tells a deadline that fired from one that was moved meanwhile
  bool idle_ = true;             // waits for the first byte of a request
  bool unread_body_ = false;     // a request was refused before all of it was read
  bool watching_ = false;
  bool stop_watch_ = false;
};

}  // namespace cairn::http
