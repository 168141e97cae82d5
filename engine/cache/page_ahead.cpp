// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_ahead.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.hpp"

namespace cairn::engine {
namespace {

constexpr int kNice = 10;           // a tenth of a busy core
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which headers before glibc 2.35 lack
// Between two requests of one client that does not wait nothing is begun.
constexpr std::chrono::milliseconds kPause{20};
// Memory that is there at once comes at some 12 GB/s: a quarter of a gigabyte from one look to the
// next.
constexpr std::chrono::milliseconds kLookEvery{20};
constexpr std::chrono::seconds kUntilSpare{1};

}  // namespace

PageAhead::PageAhead(std::byte* base, std::size_t stride, std::int32_t slots, Options options)
    : base_(base), stride_(stride), slots_(slots), options_(std::move(options)) {
  thread_ = std::thread([this] { work(); });
}

PageAhead::~PageAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PageAhead::hand_out(std::int32_t next) {
  const std::lock_guard lock(mutex_);
  const bool had_work = has_work();
  const std::int32_t slots = next - next_;
  if (slots > ahead_) begun_ = 0;  // what has some of its pages is among them
  ahead_ = std::max(ahead_ - slots, 0);
  target_ = std::max(target_ - slots, 0);
  next_ = next;
  if (!had_work && has_work()) changed_.notify_all();
}

void PageAhead::want(std::int64_t slots) {
  const std::lock_guard lock(mutex_);
  const bool had_work = has_work();
  target_ = static_cast<std::int32_t>(std::clamp<std::int64_t>(slots, 0, slots_ - next_));
  shrink();
  if (!had_work && has_work()) changed_.notify_all();
}

void PageAhead::set_quiet(bool quiet) {
  const std::lock_guard lock(mutex_);
  const bool had_work = has_work();
  if (quiet && !quiet_) quiet_since_ = Clock::now();
  quiet_ = quiet;
  if (!had_work && has_work()) changed_.notify_all();
}

std::int32_t PageAhead::ahead() const {
  const std::lock_guard lock(mutex_);
  return ahead_;
}

std::size_t PageAhead::ahead_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(ahead_ + (begun_ > 0 ? 1 : 0)) * stride_;
}

bool PageAhead::has_work() const {
  return ahead_ < (quiet_ ? target_ : std::min(target_, options_.few));
}

// False: there is none any more.
bool PageAhead::wait_for_work(std::unique_lock<std::mutex>& lock) {
  while (!stop_) {
    if (!has_work()) {
      changed_.wait(lock);
    } else if (ahead_ < std::min(target_, options_.few) || Clock::now() - quiet_since_ >= kPause) {
      return true;
    } else {
      changed_.wait_until(lock, quiet_since_ + kPause);
    }
  }
  return false;
}

bool PageAhead::has_spare() {
  if (!options_.spare || Clock::now() - asked_ < kLookEvery) return true;
  if (!options_.spare()) return false;
  asked_ = Clock::now();
  return true;
}

void PageAhead::work() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);  // of this thread alone
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock)) {
    const std::int32_t slot = next_ + ahead_;
    const std::size_t at = begun_;
    const std::size_t bytes = std::min(options_.piece, stride_ - at);
    lock.unlock();
    const bool spare = has_spare();
    const bool done = spare && ::madvise(data(slot) + at, bytes, kPopulateWrite) == 0;
    if (spare && !done) {
      log(LogLevel::warning,
          std::string("memory of the cache is obtained as it is needed, not before: ") +
              std::strerror(errno));
      return;
    }
    lock.lock();
    if (done) {
      add(slot, at, bytes);
    } else {
      changed_.wait_for(lock, kUntilSpare);
    }
  }
}

// These pages came while others changed what is wanted.
void PageAhead::add(std::int32_t slot, std::size_t at, std::size_t bytes) {
  if (slot < next_) return;  // handed out
  if (slot != next_ + ahead_ || at != begun_ || ahead_ >= target_) {
    ::madvise(data(slot) + at, bytes, MADV_DONTNEED);
    return;
  }
  begun_ = at + bytes;
  if (begun_ < stride_) return;
  ++ahead_;
  begun_ = 0;
}

// Neighbours go together: whoever asked waits for it.
void PageAhead::shrink() {
  if (ahead_ < target_ || (ahead_ == target_ && begun_ == 0)) return;
  const std::size_t from = static_cast<std::size_t>(next_ + target_) * stride_;
  const std::size_t to = static_cast<std::size_t>(next_ + ahead_) * stride_ + begun_;
  ::madvise(base_ + from, to - from, MADV_DONTNEED);
  ahead_ = target_;
  begun_ = 0;
}

}  // namespace cairn::engine
