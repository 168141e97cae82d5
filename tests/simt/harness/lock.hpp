// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace cairn::simt {

/// The one lock of the harness: over the machine, its memory and its streams. Taken again by the
/// thread that has it without a call of the mutex, which ThreadSanitizer would take for order
/// between streams.
class Lock {
 public:
  Lock() {
    if (depth_++ == 0) mutex_.lock();
  }
  ~Lock() {
    if (--depth_ == 0) mutex_.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  inline static std::mutex mutex_;
  inline static thread_local int depth_ = 0;
};

}  // namespace cairn::simt
