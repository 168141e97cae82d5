// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/thread_pool.hpp"

#include <xmmintrin.h>

#include <algorithm>
#include <chrono>

#include "base/check.hpp"

namespace cairn::kernels {
namespace {

using std::chrono::microseconds;

// Longer than the gap between two jobs of one step, shorter than anyone would notice in a CPU
// graph.
constexpr microseconds kWorkerSpin{40};
constexpr microseconds kCallerSpin{100};
constexpr int kPausesPerLook = 16;  // at the clock

thread_local bool inside_chunk = false;

// Until ready() or for `most`; whether it was ready.
template <class Ready>
bool spin(microseconds most, Ready ready) {
  if (ready()) return true;
  const auto end = std::chrono::steady_clock::now() + most;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      _mm_pause();
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) {
  _mm_setcsr(0x1f80);  // exceptions masked, round to nearest, neither FTZ nor DAZ
}
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(saved_); }

ThreadPool::ThreadPool(int threads) : ranges_(static_cast<std::size_t>(std::max(threads, 1))) {
  try {
    for (std::size_t i = 1; i < ranges_.size(); ++i) {
      workers_.emplace_back([this, i] { work(i); });
    }
  } catch (...) {
    shut_down();
    throw;
  }
}

ThreadPool::~ThreadPool() { shut_down(); }

void ThreadPool::shut_down() {
  stop_.store(true);
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_erased(std::int64_t chunks, Invoke invoke, void* fn) {
  check(chunks >= 0 && chunks < (std::int64_t{1} << 31), "a job has 0 to 2^31 - 1 chunks");
  if (chunks == 0) return;
  const FloatEnvironment environment;
  if (inside_chunk) {
    for (std::int64_t i = 0; i < chunks; ++i) invoke(fn, i);
    return;
  }
  const std::lock_guard lock(run_mutex_);
  failed_.store(false, std::memory_order_relaxed);
  failure_ = nullptr;
  invoke_ = invoke;
  fn_ = fn;
  hand_out(chunks);
  take_part(0);
  wait_for_others();
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(std::move(failure_));
}

void ThreadPool::hand_out(std::int64_t chunks) {
  pending_.store(chunks, std::memory_order_relaxed);
  const auto bound = [&](std::int64_t thread) {
    return static_cast<std::uint64_t>(chunks * thread / threads());
  };
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto thread = static_cast<std::int64_t>(i);
    ranges_[i].claims.store(bound(thread + 1) << 32 | bound(thread), std::memory_order_release);
  }
  if (chunks > 1 && !workers_.empty()) {
    wake_.fetch_add(1);
    wake_.notify_all();
  }
}

// The thread's own range, then what the others have not got to.
void ThreadPool::take_part(std::size_t self) {
  std::int64_t chunk = 0;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    Range& from = ranges_[(self + i) % ranges_.size()];
    std::int64_t done = 0;
    for (; claim(from, &chunk); ++done) execute(chunk);
    // Before a look at the next range, which may be on its way from another core.
    if (done > 0 && pending_.fetch_sub(done, std::memory_order_acq_rel) == done) {
      pending_.notify_all();
    }
  }
}

bool ThreadPool::claim(Range& from, std::int64_t* chunk) {
  const auto left = [](std::uint64_t claims) { return (claims & 0xffffffffU) < (claims >> 32); };
  if (!left(from.claims.load(std::memory_order_relaxed))) return false;
  const std::uint64_t claims = from.claims.fetch_add(1, std::memory_order_acq_rel);
  *chunk = static_cast<std::int64_t>(claims & 0xffffffffU);
  return left(claims);
}

void ThreadPool::execute(std::int64_t chunk) {
  if (failed_.load(std::memory_order_relaxed)) return;
  inside_chunk = true;
  try {
    invoke_(fn_, chunk);
  } catch (...) {
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }
  inside_chunk = false;
}

void ThreadPool::wait_for_others() {
  const auto left = [this] { return pending_.load(std::memory_order_acquire); };
  if (spin(kCallerSpin, [&] { return left() == 0; })) return;
  for (std::int64_t n = left(); n != 0; n = left()) pending_.wait(n, std::memory_order_acquire);
}

void ThreadPool::work(std::size_t self) {
  const FloatEnvironment environment;
  while (true) {
    const std::uint32_t seen = wake_.load();
    take_part(self);
    if (stop_.load()) return;
    const bool woken =
        spin(kWorkerSpin, [&] { return wake_.load(std::memory_order_acquire) != seen; });
    if (!woken) wake_.wait(seen);
  }
}

}  // namespace cairn::kernels
