// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_ahead.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace cairn::engine {
namespace {

// A page fault elsewhere, or work that begins, may wait for as much as one call does.
constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr int kNice = 10;           // a tenth of a busy core
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which headers before glibc 2.35 lack
// Between two requests of one client that does not wait nothing is begun.
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

PageAhead::PageAhead(std::byte* base, std::size_t stride, std::int32_t slots, std::int32_t few)
    : base_(base), stride_(stride), slots_(slots), few_(few) {
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

void PageAhead::advance(std::int32_t next, std::int64_t room) {
  const std::lock_guard lock(mutex_);
  if (next - next_ > ahead_) begun_ = 0;  // what has some of its pages is among those handed out
  ahead_ = std::max(ahead_ - (next - next_), 0);
  next_ = next;
  target_ = static_cast<std::int32_t>(std::clamp<std::int64_t>(room, 0, slots_ - next));
  shrink();
  if (ahead_ < target_) changed_.notify_all();
}

void PageAhead::set_quiet(bool quiet) {
  const std::lock_guard lock(mutex_);
  if (quiet && !quiet_) quiet_since_ = Clock::now();
  quiet_ = quiet;
  if (quiet && ahead_ < target_) changed_.notify_all();
}

std::int32_t PageAhead::ahead() const {
  const std::lock_guard lock(mutex_);
  return ahead_;
}

// False: there is none any more.
bool PageAhead::wait_for_work(std::unique_lock<std::mutex>& lock) {
  while (!stop_) {
    if (ahead_ < std::min(target_, few_)) return true;
    const bool later = quiet_ && ahead_ < target_;
    if (later && Clock::now() - quiet_since_ >= kPause) return true;
    if (later) {
      changed_.wait_until(lock, quiet_since_ + kPause);
    } else {
      changed_.wait(lock);
    }
  }
  return false;
}

void PageAhead::work() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);  // of this thread alone
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock)) {
    const std::int32_t slot = next_ + ahead_;
    const std::size_t at = begun_;
    const std::size_t bytes = std::min(kPiece, stride_ - at);
    lock.unlock();
    const bool done = ::madvise(data(slot) + at, bytes, kPopulateWrite) == 0;
    lock.lock();
    if (!done) return;  // the system will not
    add(slot, at, bytes);
  }
}

// These pages came while others changed what is wanted.
void PageAhead::add(std::int32_t slot, std::size_t at, std::size_t bytes) {
  if (slot < next_) return;  // handed out
  if (slot != next_ + ahead_ || ahead_ >= target_) return give_back(slot);
  if (at != begun_) return;
  begun_ = at + bytes;
  if (begun_ < stride_) return;
  ++ahead_;
  begun_ = 0;
}

void PageAhead::shrink() {
  if (ahead_ >= target_ && begun_ > 0) {
    give_back(next_ + ahead_);
    begun_ = 0;
  }
  while (ahead_ > target_) give_back(next_ + --ahead_);
}

void PageAhead::give_back(std::int32_t slot) const {
  ::madvise(data(slot), stride_, MADV_DONTNEED);
}

}  // namespace cairn::engine
