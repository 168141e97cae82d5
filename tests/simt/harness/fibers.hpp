// SPDX-License-Identifier: Apache-2.0
// Fibers with stacks of their own, known to AddressSanitizer and ThreadSanitizer. This folder is
// compiled without instrumentation, so that ThreadSanitizer sees the accesses of the kernels only
// and, between their threads, only the order that a barrier makes.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

namespace cairn::simt {

class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes a stack at the first call. entry(argument) starts at the first switch to this fiber and
  /// must not return. `number` staggers the stacks, which would share cache sets otherwise.
  void prepare(void (*entry)(void*), void* argument, std::size_t number);
  bool prepared() const { return context_ != nullptr; }
  /// Forgets where it stood; prepare() starts it afresh.
  void abandon();

  /// Leaves `this`, the running fiber (or the thread's own stack), for `to`. Returns at the next
  /// switch back; with `forever` it does not.
  void switch_to(Fiber& to, bool forever = false);

 private:
  void arrive(void* from, void* context);
  friend struct FiberEntry;

  void* context_ = nullptr;
  std::byte* stack_ = nullptr;      // the lowest usable byte; a guard page lies below
  std::size_t stack_bytes_ = 0;     // of a thread's own stack, as the sanitizer tells it
  void* fake_stack_ = nullptr;      // AddressSanitizer's
  void* shadow_ = nullptr;          // ThreadSanitizer's
  void (*entry_)(void*) = nullptr;  // null for a thread's own stack
  void* argument_ = nullptr;
};

/// Work on a stack of its own, which ThreadSanitizer takes for a thread's whose order with the
/// caller's accesses the tokens below tell.
class Aside {
 public:
  /// What the caller has done so far is ordered before all work.
  Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  /// Returns when `work` has, and throws what it has thrown.
  void run(const std::function<void()>& work);

 private:
  void work_forever();

  Fiber fiber_;
  Fiber caller_;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr error_;
  char thrown_ = 0;
};

/// During its life ThreadSanitizer overlooks what this thread or fiber allocates and frees: the
/// harness' books, which all streams keep together.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// What a barrier tells ThreadSanitizer: everything before a release is seen after an acquire.
void order_release(void* token);
void order_acquire(void* token);

}  // namespace cairn::simt
