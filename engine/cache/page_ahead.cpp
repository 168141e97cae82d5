// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_ahead.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace cairn::engine {
namespace {

// A page fault elsewhere may wait for as much as one call does.
constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr int kNice = 10;           // a tenth of a busy core
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which headers before glibc 2.35 lack

}  // namespace

PageAhead::PageAhead(std::byte* base, std::size_t stride, std::int32_t slots, std::int32_t most)
    : base_(base), stride_(stride), slots_(slots), most_(most) {
  thread_ = std::thread([this] { work(); });
}

PageAhead::~PageAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
  }
  changed_.notify_all();
  thread_.join();
}

void PageAhead::advance(std::int32_t next, std::int64_t room) {
  const std::lock_guard lock(mutex_);
  ahead_ = std::max(ahead_ - (next - next_), 0);
  next_ = next;
  target_ =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(room, 0, std::min(most_, slots_ - next)));
  while (ahead_ > target_) give_back(next_ + --ahead_);
  if (ahead_ < target_) changed_.notify_all();
}

std::int32_t PageAhead::ahead() const {
  const std::lock_guard lock(mutex_);
  return ahead_;
}

void PageAhead::work() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);  // of this thread alone
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_.load() || ahead_ < target_; });
    if (stop_.load()) return;
    const std::int32_t slot = next_ + ahead_;
    lock.unlock();
    const bool done = populate(slot);
    lock.lock();
    if (!done) {  // stopping, or the system will not
      target_ = 0;
      changed_.wait(lock, [this] { return stop_.load(); });
      return;
    }
    if (slot < next_) continue;  // taken meanwhile
    if (slot == next_ + ahead_ && ahead_ < target_) {
      ++ahead_;
    } else {
      give_back(slot);
    }
  }
}

bool PageAhead::populate(std::int32_t slot) const {
  for (std::size_t at = 0; at < stride_; at += kPiece) {
    const std::size_t bytes = std::min(kPiece, stride_ - at);
    if (stop_.load() || ::madvise(data(slot) + at, bytes, kPopulateWrite) != 0) return false;
  }
  return true;
}

void PageAhead::give_back(std::int32_t slot) const {
  ::madvise(data(slot), stride_, MADV_DONTNEED);
}

}  // namespace cairn::engine
