// SPDX-License-Identifier: Apache-2.0
// What runs blocks: the threads of the running block and what they wait for. Each stream has a
// machine of its own, so that ThreadSanitizer takes nothing for ordered that the streams do not
// order; the null stream's is the calling thread's.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "kernels/cuda/host_threads.hpp"
#include "tests/simt/harness/fibers.hpp"

namespace cairn::simt {

/// Carries out a warp operation for the lanes that have a request.
using Complete = void (*)(void* const (&requests)[32]);

enum class State : std::uint8_t { ready, at_barrier, in_warp_operation, exited };

struct Thread {
  static constexpr std::uint32_t kMaxCopies = 128;

  Fiber fiber;
  unsigned index = 0;
  State state = State::exited;
  bool predicate = false;  // at a barrier that counts
  // The warp operation it takes part in.
  unsigned mask = 0;
  Complete complete = nullptr;
  void* request = nullptr;
  bool orders = false;
  void* order_token = nullptr;
  // Asynchronous copies under way: a ring.
  std::array<Copy, kMaxCopies> copies;
  std::uint32_t first_copy = 0;
  std::uint32_t copy_count = 0;
  std::uint32_t open_group = 0;
};

class Machine {
 public:
  static constexpr unsigned kMaxThreads = 1024;

  void run(const LaunchShape& shape, void (*thread)(void*), void* context);
  Thread& self() { return *current_; }
  bool inside() const { return current_ != nullptr; }

  int barrier(bool predicate);
  /// Waits for the other lanes of the mask; the last one there carries the operation out.
  void warp_operation(unsigned mask, Complete complete, void* request, bool orders);
  [[noreturn]] void fault(const char* message);

  std::byte* shared() { return shared_.get(); }
  std::size_t shared_bytes() const { return shape_.shared_bytes; }
  const LaunchShape& shape() const { return shape_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }  // NOLINT: from posix_memalign
  };

  void run_block(std::uint64_t number);
  void run_kernel();
  void start_threads(std::uint64_t number);
  void push(Thread& thread);
  void switch_away();
  void exit_thread();
  void try_barrier();
  bool try_complete(unsigned warp, unsigned mask, Complete complete, Thread* last);
  void enter(Thread& thread);
  [[noreturn]] void deadlock();
  void discard();

  LaunchShape shape_;
  void (*body_)(void*) = nullptr;
  void* context_ = nullptr;
  std::unique_ptr<std::byte, Free> shared_;
  std::unique_ptr<Thread[]> threads_;
  Fiber main_;
  Thread* current_ = nullptr;
  std::array<Thread*, kMaxThreads> ready_{};  // a ring: first in, first out
  unsigned first_ready_ = 0;
  unsigned ready_count_ = 0;
  unsigned arrived_ = 0;  // at the barrier
  unsigned exited_ = 0;
  int counted_ = 0;  // predicates of the barrier that was released last
  unsigned barriers_ = 0;
  std::array<char, 2> barrier_token_{};  // alternating: a fast thread is already at the next one
  std::array<std::array<char, 4>, 32> warp_token_{};  // in turn
  std::array<unsigned, 32> warp_operations_{};
  char start_token_ = 0;
  char end_token_ = 0;
  std::array<char, 384> fault_{};
};

/// The machine that runs at present, under the Lock.
Machine& machine();

/// Makes `machine` the one that runs.
class UseMachine {
 public:
  explicit UseMachine(Machine& machine);
  ~UseMachine();
  UseMachine(const UseMachine&) = delete;
  UseMachine& operator=(const UseMachine&) = delete;

 private:
  Machine* before_;
};

/// Throws Fault when bytes beside an allocation have changed: "<what> wrote outside a buffer".
void check_guards(const char* what);

// The counters' side (counters.cpp).
void count_access(Access kind, const void* address, unsigned bytes, int line, unsigned thread);
void count_block();
void count_launch(const LaunchShape& shape);
void discard_counts();

}  // namespace cairn::simt
