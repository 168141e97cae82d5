// SPDX-License-Identifier: Apache-2.0
// Memory of slots that will be handed out next, obtained from the system before they are.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace cairn::engine {

/// The system clears a page when it is first touched, and a virtual machine whose host finds the
/// memory only then takes some milliseconds for each 2 MiB: more than the copy of a state that it
/// is needed for. A thread of low priority does it ahead for slots that are handed out in ascending
/// order: all that is asked for while nothing runs, and a few when hardly any are left. Contents
/// are never changed. Thread-safe.
class PageAhead {
 public:
  struct Options {
    std::int32_t few = 0;  // slots that are kept ahead while work runs, too
    // Asked now and then: whether the system has memory to spare. Empty: it has.
    std::function<bool()> spare = {};
    // A page fault elsewhere, or work that begins, may wait for as much as is asked for in one
    // call.
    std::size_t piece = std::size_t{2} << 20;
  };
  /// Slots of `stride` bytes (whole pages, as is a piece) from `base`. None are ahead where the
  /// system cannot do it (before Linux 5.14), which is logged. Quiet at first.
  PageAhead(std::byte* base, std::size_t stride, std::int32_t slots, Options options);
  PageAhead(const PageAhead&) = delete;
  PageAhead& operator=(const PageAhead&) = delete;
  ~PageAhead();

  /// Slots below `next` are in use from now on, and no more wanted.
  void hand_out(std::int32_t next);
  /// So many slots from `next` on are to have pages; what has them beyond that gives them back.
  void want(std::int64_t slots);
  /// Whether nothing runs that pages could be made at the expense of.
  void set_quiet(bool quiet);
  /// Slots from `next` on that have all their pages.
  std::int32_t ahead() const;
  /// Of these and one that has some of its pages.
  std::size_t ahead_bytes() const;

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  bool wait_for_work(std::unique_lock<std::mutex>& lock);
  bool has_spare();
  bool has_work() const;
  void add(std::int32_t slot, std::size_t at, std::size_t bytes);
  void shrink();
  std::byte* data(std::int32_t slot) const {
    return base_ + static_cast<std::size_t>(slot) * stride_;
  }

  std::byte* const base_;
  const std::size_t stride_;
  const std::int32_t slots_;
  const Options options_;
  mutable std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::int32_t next_ = 0;
  std::int32_t ahead_ = 0;
  std::size_t begun_ = 0;    // bytes of slot next_ + ahead_ that have pages
  std::int32_t target_ = 0;  // of ahead_
  bool quiet_ = true;
  Clock::time_point quiet_since_ = Clock::now();
  bool stop_ = false;
  Clock::time_point asked_{};  // for spare memory; the thread's own
  std::thread thread_;
};

}  // namespace cairn::engine
