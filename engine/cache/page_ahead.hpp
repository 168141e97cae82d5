// SPDX-License-Identifier: Apache-2.0
// Memory of slots that will be handed out next, obtained from the system before they are.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace cairn::engine {

/// The system clears a page when it is first touched, which takes a virtual machine some
/// milliseconds for each 2 MiB: more than the copy of a state that it is needed for. A thread of
/// low priority does it ahead for slots that are handed out in ascending order. Contents are never
/// changed. advance() and ahead() are thread-safe.
class PageAhead {
 public:
  /// Slots of `stride` bytes (whole pages) from `base`, at most `most` of them ahead. None are
  /// where the system cannot do it (before Linux 5.14).
  PageAhead(std::byte* base, std::size_t stride, std::int32_t slots, std::int32_t most);
  PageAhead(const PageAhead&) = delete;
  PageAhead& operator=(const PageAhead&) = delete;
  ~PageAhead();

  /// Slots below `next` are in use from now on; no more than `room` after them may have pages, and
  /// what has them beyond that gives them back.
  void advance(std::int32_t next, std::int64_t room);
  /// Slots from `next` on that have their pages.
  std::int32_t ahead() const;

 private:
  void work();
  bool populate(std::int32_t slot) const;
  void give_back(std::int32_t slot) const;
  std::byte* data(std::int32_t slot) const {
    return base_ + static_cast<std::size_t>(slot) * stride_;
  }

  std::byte* const base_;
  const std::size_t stride_;
  const std::int32_t slots_, most_;
  mutable std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::int32_t next_ = 0;
  std::int32_t ahead_ = 0;
  std::int32_t target_ = 0;  // of ahead_
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace cairn::engine
