// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/harness/machine.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "tests/simt/harness/harness.hpp"
#include "tests/simt/harness/lock.hpp"

cairn::simt::Index threadIdx;
cairn::simt::Index blockIdx;
cairn::simt::Index blockDim;
cairn::simt::Index gridDim;

namespace cairn::simt {
namespace {

Machine own_machine;
Machine* running = &own_machine;
std::int64_t all_launches = 0;

/// Any fixed pattern will do; this one starts blocks at different warps and lanes.
unsigned first_thread(std::uint64_t block, unsigned threads) {
  return static_cast<unsigned>((block * 0x9e3779b97f4a7c15U >> 33) % threads);
}

}  // namespace

Machine& machine() { return *running; }

UseMachine::UseMachine(Machine& machine) : before_(std::exchange(running, &machine)) {}
UseMachine::~UseMachine() { running = before_; }

void Machine::run(const LaunchShape& shape, void (*thread)(void*), void* context) {
  if (shape.threads == 0 || shape.threads > kMaxThreads || shape.threads % 32 != 0) {
    throw Fault(std::string("kernel ") + shape.kernel +
                ": a block has whole warps, 1,024 threads at most");
  }
  shape_ = shape;
  body_ = thread;
  context_ = context;
  void* memory = nullptr;
  // An own allocation of the exact size lets AddressSanitizer see the first byte behind it.
  if (shape.shared_bytes > 0 && posix_memalign(&memory, 128, shape.shared_bytes) != 0) {
    throw std::bad_alloc();
  }
  shared_.reset(static_cast<std::byte*>(memory));
  if (threads_ == nullptr) threads_ = std::make_unique<Thread[]>(kMaxThreads);
  blockDim = {shape.threads, 1, 1};
  gridDim = shape.grid;
  const std::uint64_t blocks = std::uint64_t{1} * shape.grid.x * shape.grid.y * shape.grid.z;
  for (std::uint64_t b = 0; b < blocks; ++b) run_block(b);
  ++all_launches;
  const Unseen unseen;
  count_launch(shape_);
  check_guards((std::string("kernel ") + shape_.kernel).c_str());
  shared_.reset();
}

void Machine::run_block(std::uint64_t number) {
  blockIdx.x = static_cast<unsigned>(number % shape_.grid.x);
  blockIdx.y = static_cast<unsigned>(number / shape_.grid.x % shape_.grid.y);
  blockIdx.z = static_cast<unsigned>(number / shape_.grid.x / shape_.grid.y);
  if (shape_.shared_bytes > 0) std::memset(shared_.get(), 0xff, shape_.shared_bytes);
  start_threads(number);
  order_release(&start_token_);
  Thread* first = ready_[first_ready_];
  first_ready_ = (first_ready_ + 1) % kMaxThreads;
  --ready_count_;
  enter(*first);
  main_.switch_to(first->fiber);
  current_ = nullptr;
  order_acquire(&end_token_);
  if (fault_[0] != 0) {
    discard();
    const std::string message = fault_.data();
    fault_[0] = 0;
    throw Fault(message);
  }
  const Unseen unseen;
  count_block();
}

void Machine::start_threads(std::uint64_t number) {
  arrived_ = exited_ = ready_count_ = first_ready_ = 0;
  const unsigned n = shape_.threads;
  const unsigned start = first_thread(number, n);
  for (unsigned i = 0; i < n; ++i) {
    // Odd blocks run their threads downwards.
    const unsigned index = number % 2 == 0 ? (start + i) % n : (start + n - i) % n;
    Thread& thread = threads_[index];
    thread.index = index;
    thread.first_copy = thread.copy_count = thread.open_group = 0;
    if (!thread.fiber.prepared()) {
      thread.fiber.prepare([](void* self) { static_cast<Machine*>(self)->run_kernel(); }, this,
                           index);
    }
    push(thread);
  }
}

void Machine::run_kernel() {
  for (;;) {
    order_acquire(&start_token_);
    body_(context_);
    order_release(&end_token_);
    exit_thread();
  }
}

void Machine::exit_thread() {
  Thread& thread = self();
  if (thread.copy_count > 0) {
    simt::fault("exits with %u asynchronous copies that it has not waited for", thread.copy_count);
  }
  thread.state = State::exited;
  ++exited_;
  // Others may have been waiting for this thread only.
  if (exited_ < shape_.threads) try_barrier();
  const unsigned warp = thread.index / 32;
  for (unsigned i = 0; i < 32; ++i) {
    const Thread& other = threads_[warp * 32 + i];
    if (other.state == State::in_warp_operation && (other.mask >> thread.index % 32 & 1U) != 0) {
      try_complete(warp, other.mask, other.complete, nullptr);
    }
  }
  if (exited_ < shape_.threads) {
    switch_away();
  } else {
    thread.fiber.switch_to(main_);
  }
}

void Machine::push(Thread& thread) {
  thread.state = State::ready;
  ready_[(first_ready_ + ready_count_) % kMaxThreads] = &thread;
  ++ready_count_;
}

void Machine::enter(Thread& thread) {
  current_ = &thread;
  threadIdx = {thread.index, 0, 0};
}

void Machine::switch_away() {
  if (ready_count_ == 0) deadlock();
  Thread& from = self();
  Thread& to = *ready_[first_ready_];
  first_ready_ = (first_ready_ + 1) % kMaxThreads;
  --ready_count_;
  if (&to == &from) return;
  enter(to);
  from.fiber.switch_to(to.fiber);
}

int Machine::barrier(bool predicate) {
  Thread& thread = self();
  char* token = &barrier_token_[barriers_ % 2];
  order_release(token);
  thread.predicate = predicate;
  thread.state = State::at_barrier;
  ++arrived_;
  try_barrier();
  switch_away();
  order_acquire(token);
  return counted_;
}

void Machine::try_barrier() {
  if (arrived_ == 0 || arrived_ + exited_ < shape_.threads) return;
  arrived_ = 0;
  ++barriers_;
  counted_ = 0;
  for (unsigned i = 0; i < shape_.threads; ++i) {
    Thread& thread = threads_[(self().index + 1 + i) % shape_.threads];
    if (thread.state != State::at_barrier) continue;
    counted_ += thread.predicate ? 1 : 0;
    push(thread);
  }
}

void Machine::warp_operation(unsigned mask, Complete complete, void* request, bool orders) {
  Thread& thread = self();
  if ((mask >> thread.index % 32 & 1U) == 0) {
    simt::fault("is not in the mask %08x of its warp operation", mask);
  }
  thread.state = State::in_warp_operation;
  thread.mask = mask;
  thread.complete = complete;
  thread.request = request;
  thread.orders = orders;
  if (orders) order_release(&thread.order_token);
  if (try_complete(thread.index / 32, mask, complete, &thread)) {
    thread.state = State::ready;
  } else {
    switch_away();
  }
  if (orders) order_acquire(thread.order_token);
}

/// The operation of `mask` in the warp when all its lanes have come; `last` goes on by itself.
bool Machine::try_complete(unsigned warp, unsigned mask, Complete complete, Thread* last) {
  void* requests[32] = {};
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    const Thread& lane = threads_[warp * 32 + i];
    if (lane.state == State::exited) continue;
    if (lane.state != State::in_warp_operation) return false;
    if (lane.mask != mask || lane.complete != complete) {
      simt::fault("and lane %u are in different warp operations, or disagree about the mask", i);
    }
    requests[i] = lane.request;
  }
  if (complete != nullptr) complete(requests);
  char* token = &warp_token_[warp][warp_operations_[warp]++ % 4];
  bool orders = false;
  for (unsigned i = 0; i < 32; ++i) {
    Thread& lane = threads_[warp * 32 + i];
    if (requests[i] == nullptr) continue;
    if (lane.orders) order_acquire(&lane.order_token);
    orders = orders || lane.orders;
    lane.order_token = token;
    if (&lane != last) push(lane);
  }
  if (orders) order_release(token);
  return true;
}

void Machine::deadlock() {
  unsigned at_barrier = 0;
  unsigned in_warp = 0;
  for (unsigned i = 0; i < shape_.threads; ++i) {
    at_barrier += threads_[i].state == State::at_barrier ? 1 : 0;
    in_warp += threads_[i].state == State::in_warp_operation ? 1 : 0;
  }
  simt::fault("deadlock: %u threads at __syncthreads, %u in a warp operation, %u exited of %u",
              at_barrier, in_warp, exited_, shape_.threads);
}

// The frames of a faulting fiber are abandoned, so nothing here may own memory.
void Machine::fault(const char* message) {
  std::snprintf(fault_.data(), fault_.size(), "kernel %s, block %u,%u,%u, thread %u: %s",
                shape_.kernel, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, message);
  self().fiber.switch_to(main_, true);
  std::abort();  // nobody comes back here
}

void Machine::discard() {
  for (unsigned i = 0; i < shape_.threads; ++i) {
    threads_[i].fiber.abandon();
    threads_[i].state = State::exited;
  }
  shared_.reset();
  discard_counts();
}

void run(const LaunchShape& shape, void (*thread)(void*), void* context) {
  const Lock lock;
  machine().run(shape, thread, context);
}

void fault(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!machine().inside()) throw Fault(text);
  machine().fault(text);
}

std::byte* shared_memory() { return machine().shared(); }
std::int64_t launches() {
  const Lock lock;
  return all_launches;
}
void barrier() { machine().barrier(false); }
int barrier_count(bool predicate) { return machine().barrier(predicate); }
unsigned lane() { return threadIdx.x % 32; }

}  // namespace cairn::simt
