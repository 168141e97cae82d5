// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/harness/fibers.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>
#include <utility>

#if defined(CAIRN_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(CAIRN_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
// Of ThreadSanitizer's runtime, declared in no header of it.
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace cairn::simt {
namespace {

namespace context = boost::context::detail;

#if defined(CAIRN_SIMT_ASAN) || defined(CAIRN_SIMT_TSAN)
constexpr std::size_t kStackBytes = 256 * 1024;  // instrumented frames are several times larger
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

struct FiberEntry {
  static void start(context::transfer_t transfer) {
    auto* from = static_cast<Fiber*>(transfer.data);
    // The first switch carries no word of who is meant; the fiber left it where it switched.
    Fiber* self = destination;
    self->arrive(from, transfer.fctx);
    self->entry_(self->argument_);
  }
  static Fiber* destination;
};
Fiber* FiberEntry::destination = nullptr;

Fiber::~Fiber() {
  abandon();
  if (entry_ != nullptr) munmap(stack_ - page_bytes(), kStackBytes + page_bytes());
}

void Fiber::prepare(void (*entry)(void*), void* argument, std::size_t number) {
  entry_ = entry;
  argument_ = argument;
  if (stack_ == nullptr) {
    void* memory = mmap(nullptr, kStackBytes + page_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, page_bytes(), PROT_NONE);
    stack_ = static_cast<std::byte*>(memory) + page_bytes();
    stack_bytes_ = kStackBytes;
  }
  const std::size_t usable = kStackBytes - number % 32 * 128;
  context_ = context::make_fcontext(stack_ + usable, usable, FiberEntry::start);
#if defined(CAIRN_SIMT_TSAN)
  shadow_ = __tsan_create_fiber(0);
#endif
}

void Fiber::abandon() {
  context_ = nullptr;
  fake_stack_ = nullptr;
#if defined(CAIRN_SIMT_ASAN)
  if (entry_ != nullptr) __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
#if defined(CAIRN_SIMT_TSAN)
  if (shadow_ != nullptr && entry_ != nullptr) {
    // Going there and back orders what the fiber did before all that its memory is used for later.
    void* here = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(shadow_, __tsan_switch_to_fiber_no_sync);
    __tsan_switch_to_fiber(here, 0);
    __tsan_destroy_fiber(shadow_);
  }
#endif
  shadow_ = nullptr;
}

void Fiber::switch_to(Fiber& to, [[maybe_unused]] bool forever) {
#if defined(CAIRN_SIMT_ASAN)
  __sanitizer_start_switch_fiber(forever ? nullptr : &fake_stack_, to.stack_, to.stack_bytes_);
#endif
#if defined(CAIRN_SIMT_TSAN)
  if (entry_ == nullptr) shadow_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.shadow_, __tsan_switch_to_fiber_no_sync);
#endif
  FiberEntry::destination = &to;
  const context::transfer_t transfer = context::jump_fcontext(to.context_, this);
  arrive(transfer.data, transfer.fctx);
}

void Fiber::arrive(void* from, void* context) {
  auto* left = static_cast<Fiber*>(from);
  left->context_ = context;
#if defined(CAIRN_SIMT_ASAN)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
  if (left->entry_ == nullptr) {
    left->stack_ = static_cast<std::byte*>(const_cast<void*>(bottom));
    left->stack_bytes_ = bytes;
  }
#endif
}

Aside::Aside() {
  fiber_.prepare([](void* self) { static_cast<Aside*>(self)->work_forever(); }, this, 0);
}

void Aside::run(const std::function<void()>& work) {
  work_ = &work;
  caller_.switch_to(fiber_);
  if (error_ == nullptr) return;
  order_acquire(&thrown_);
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void Aside::work_forever() {
  for (;;) {
    try {
      (*work_)();
    } catch (...) {
      error_ = std::current_exception();
      order_release(&thrown_);
    }
    fiber_.switch_to(caller_);
  }
}

Unseen::Unseen() {
#if defined(CAIRN_SIMT_TSAN)
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}

Unseen::~Unseen() {
#if defined(CAIRN_SIMT_TSAN)
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
#endif
}

void order_release([[maybe_unused]] void* token) {
#if defined(CAIRN_SIMT_TSAN)
  __tsan_release(token);
#endif
}

void order_acquire([[maybe_unused]] void* token) {
#if defined(CAIRN_SIMT_TSAN)
  __tsan_acquire(token);
#endif
}

}  // namespace cairn::simt
