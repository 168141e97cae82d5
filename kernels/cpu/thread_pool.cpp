// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/thread_pool.hpp"

#include <xmmintrin.h>

#include "base/check.hpp"

namespace cairn::kernels {
namespace {

// Longer than the gap between two jobs of one step, shorter than anyone would notice in a CPU
// graph.
constexpr int kWorkerSpins = 1000;
constexpr int kCallerSpins = 4000;

thread_local bool inside_chunk = false;

}  // namespace

FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) {
  _mm_setcsr(0x1f80);  // exceptions masked, round to nearest, neither FTZ nor DAZ
}
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(saved_); }

ThreadPool::ThreadPool(int threads) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
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
  pending_.store(static_cast<std::int32_t>(chunks), std::memory_order_relaxed);
  claims_.store(static_cast<std::uint64_t>(chunks) << 32, std::memory_order_release);
  if (chunks > 1 && !workers_.empty()) {
    wake_.fetch_add(1);
    wake_.notify_all();
  }
  while (claim_and_execute()) {
  }
  for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kCallerSpins) {
      _mm_pause();
    } else {
      const std::int32_t left = pending_.load(std::memory_order_acquire);
      if (left != 0) pending_.wait(left, std::memory_order_acquire);
    }
  }
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(std::move(failure_));
}

bool ThreadPool::claim_and_execute() {
  std::uint64_t claims = claims_.load(std::memory_order_acquire);
  while ((claims & 0xffffffffU) < (claims >> 32)) {
    if (claims_.compare_exchange_weak(claims, claims + 1, std::memory_order_acq_rel)) {
      execute(static_cast<std::int64_t>(claims & 0xffffffffU));
      return true;
    }
  }
  return false;
}

void ThreadPool::execute(std::int64_t chunk) {
  if (!failed_.load(std::memory_order_relaxed)) {
    inside_chunk = true;
    try {
      invoke_(fn_, chunk);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
    inside_chunk = false;
  }
  if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_all();
}

void ThreadPool::work() {
  const FloatEnvironment environment;
  while (true) {
    const std::uint32_t seen = wake_.load();
    while (claim_and_execute()) {
    }
    if (stop_.load()) return;
    bool woken = false;
    for (int spin = 0; spin < kWorkerSpins && !woken; ++spin) {
      _mm_pause();
      woken = wake_.load(std::memory_order_acquire) != seen;
    }
    if (!woken) wake_.wait(seen);
  }
}

}  // namespace cairn::kernels
