// SPDX-License-Identifier: Apache-2.0
// Threads that execute the chunks of one job at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace cairn::kernels {

/// The CPU backend's threads: the caller of run() plus `threads - 1` workers. Owned by the backend.
/// run() may be called from any thread; concurrent jobs wait for one another; a run() inside a
/// chunk executes on the thread that calls it. Idle workers spin for some ten microseconds, then
/// sleep in the kernel.
///
/// Each thread has a range of a job's chunks, the same one in every job of that size, so that its
/// caches meet the same weights again; a thread that is through takes chunks from the others'
/// ranges. What all threads write is written once a thread and range. A thread whose core another
/// program has holds up the others for its chunk at hand, never for its range.
class ThreadPool {
 public:
  /// `threads` < 1 counts as 1. Throws std::system_error when a thread cannot be created.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls fn(chunk) once for every chunk in [0, chunks), in any order, on any of the threads, with
  /// default rounding and without flushing denormals. Returns when all are done. The first
  /// exception of a chunk is rethrown here; chunks not begun by then are skipped. Chunks are
  /// claimed one by one, so four to eight per thread even out unequal ones. 0 <= chunks < 2^31.
  template <class F>
  void run(std::int64_t chunks, F&& fn) {
    using Fn = std::remove_reference_t<F>;
    run_erased(
        chunks, [](void* f, std::int64_t chunk) { (*static_cast<Fn*>(f))(chunk); },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

 private:
  using Invoke = void (*)(void* fn, std::int64_t chunk);

  static constexpr std::size_t kApart = 128;  // bytes: lines are fetched in pairs

  // A thread's range of the running job: its end in the upper half, the next chunk to claim in the
  // lower, which may pass the end. A successful claim keeps run() from returning, so invoke_ and
  // fn_ are stable while a claimed chunk executes.
  struct alignas(kApart) Range {
    std::atomic<std::uint64_t> claims{0};
  };

  void run_erased(std::int64_t chunks, Invoke invoke, void* fn);
  void hand_out(std::int64_t chunks);
  void work(std::size_t self);
  void take_part(std::size_t self);
  static bool claim(Range& from, std::int64_t* chunk);
  void execute(std::int64_t chunk);
  void wait_for_others();
  void shut_down();

  // Read by all, written before a job.
  alignas(kApart) std::atomic<std::uint32_t> wake_{0};  // raised with every job
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  Invoke invoke_ = nullptr;
  void* fn_ = nullptr;
  std::vector<Range> ranges_;  // by thread, the caller of run() first
  // Written by all.
  alignas(kApart) std::atomic<std::int64_t> pending_{0};  // chunks not reported as finished
  std::exception_ptr failure_;                            // written by the chunk that sets failed_
  std::mutex run_mutex_;                                  // one job at a time
  std::vector<std::thread> workers_;
};

/// Default rounding, denormals kept, exceptions masked, for the current thread until destroyed.
class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint32_t saved_;
};

}  // namespace cairn::kernels
