// SPDX-License-Identifier: Apache-2.0
// The arithmetic of products of rounded values: VDPBF16PS takes denormals for zero and makes them
// zero, whatever the control register says, so code that is to give its bits does the same.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace cairn::kernels {

/// While it lives, fp32 instructions of the current thread read denormals as zero and write zero
/// for them. Covers arithmetic on what is loaded from memory after it was made and stored before it
/// goes. Does nothing on processors without the SSE control register.
class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : saved_(_mm_getcsr()) {
    _mm_setcsr(saved_ | kFlush);
    keep_order();
  }
  ~FlushDenormals() {
    keep_order();
    _mm_setcsr(saved_);
  }
#else
  FlushDenormals() {}
  ~FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

#if defined(__SSE__)
 private:
  static constexpr std::uint32_t kFlush = 0x8040;  // FTZ and DAZ of MXCSR

  // Compilers know nothing of the register: they move no access to memory across this.
  static void keep_order() { asm volatile("" ::: "memory"); }

  std::uint32_t saved_;
#endif
};

}  // namespace cairn::kernels
