// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/peaks.hpp"

#include <immintrin.h>

#include <cmath>

#include "kernels/cpu/codegen.hpp"

namespace cairn::kernels {
namespace {

// Latency times throughput of every processor of the last ten years stays below it.
constexpr int kChains = 12;

// Loops over the registers are unrolled everywhere, or the array would live in memory. The empty
// asm makes the compiler believe that a register changed, so that no step is folded.

[[gnu::target("avx512f")]] double multiply_adds_512(std::int64_t rounds) {
  __m512 sum[kChains];
  CAIRN_UNROLL
  for (__m512& s : sum) s = _mm512_setzero_ps();
  const __m512 x = _mm512_set1_ps(0.5F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    CAIRN_UNROLL
    for (int c = 0; c < kChains; ++c) {
      sum[c] = _mm512_fmadd_ps(sum[c], x, x);
      asm volatile("" : "+v"(sum[c]));
    }
  }
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

[[gnu::target("avx2,fma")]] double multiply_adds_256(std::int64_t rounds) {
  __m256 sum[kChains];
  CAIRN_UNROLL
  for (__m256& s : sum) s = _mm256_setzero_ps();
  const __m256 x = _mm256_set1_ps(0.5F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    CAIRN_UNROLL
    for (int c = 0; c < kChains; ++c) {
      sum[c] = _mm256_fmadd_ps(sum[c], x, x);
      asm volatile("" : "+x"(sum[c]));
    }
  }
  return 2.0 * 8 * kChains * static_cast<double>(rounds);
}

double multiply_adds_scalar(std::int64_t rounds) {
  float sum[kChains] = {};
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (float& s : sum) {
      s = std::fma(s, 0.5F, 0.5F);
      asm volatile("" : "+x"(s));
    }
  }
  return 2.0 * kChains * static_cast<double>(rounds);
}

[[gnu::target("avx512f,avx512bw,avx512vnni")]] double dots_vnni(std::int64_t rounds) {
  __m512i sum[kChains];
  CAIRN_UNROLL
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  const __m512i x = _mm512_set1_epi8(1);
  for (std::int64_t i = 0; i < rounds; ++i) {
    CAIRN_UNROLL
    for (int c = 0; c < kChains; ++c) {
      sum[c] = _mm512_dpbusd_epi32(sum[c], x, x);
      asm volatile("" : "+v"(sum[c]));
    }
  }
  return 2.0 * 64 * kChains * static_cast<double>(rounds);
}

[[gnu::target("avx512f,avx512bw")]] double dots_512(std::int64_t rounds) {
  __m512i sum[kChains];
  CAIRN_UNROLL
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi16(1);
  for (std::int64_t i = 0; i < rounds; ++i) {
    CAIRN_UNROLL
    for (int c = 0; c < kChains; ++c) {
      asm volatile("" : "+v"(x));  // or one product would serve all chains
      sum[c] = _mm512_add_epi32(sum[c], _mm512_madd_epi16(x, x));
      asm volatile("" : "+v"(sum[c]));
    }
  }
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

[[gnu::target("avx2")]] double dots_256(std::int64_t rounds) {
  __m256i sum[kChains];
  CAIRN_UNROLL
  for (__m256i& s : sum) s = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi16(1);
  for (std::int64_t i = 0; i < rounds; ++i) {
    CAIRN_UNROLL
    for (int c = 0; c < kChains; ++c) {
      asm volatile("" : "+x"(x));
      sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(x, x));
      asm volatile("" : "+x"(sum[c]));
    }
  }
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

double dots_scalar(std::int64_t rounds) {
  std::int32_t sum[kChains] = {};
  std::int32_t x = 1;
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (std::int32_t& s : sum) {
      asm volatile("" : "+r"(x));
      s += x * x;
      asm volatile("" : "+r"(s));
    }
  }
  return 2.0 * kChains * static_cast<double>(rounds);
}

[[gnu::target("avx512f,avx512bf16")]] double dots_bf16(std::int64_t rounds) {
  __m512 sum[kChains];
  CAIRN_UNROLL
  for (__m512& s : sum) s = _mm512_setzero_ps();
  const auto x = (__m512bh)_mm512_set1_epi16(0x3f00);  // 0.5
  for (std::int64_t i = 0; i < rounds; ++i) {
    CAIRN_UNROLL
    for (int c = 0; c < kChains; ++c) {
      sum[c] = _mm512_dpbf16_ps(sum[c], x, x);
      asm volatile("" : "+v"(sum[c]));
    }
  }
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

bool has_vnni() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512vnni") != 0;
}

}  // namespace

double run_multiply_adds(Isa isa, std::int64_t rounds) {
  switch (isa) {
    case Isa::avx512:
      return multiply_adds_512(rounds);
    case Isa::avx2:
      return multiply_adds_256(rounds);
    default:
      return multiply_adds_scalar(rounds);
  }
}

double run_dot_products(Isa isa, std::int64_t rounds) {
  switch (isa) {
    case Isa::avx512:
      return has_vnni() ? dots_vnni(rounds) : dots_512(rounds);
    case Isa::avx2:
      return dots_256(rounds);
    default:
      return dots_scalar(rounds);
  }
}

double run_bf16_dots(std::int64_t rounds) { return dots_bf16(rounds); }

double run_rounded_products(Isa isa, std::int64_t rounds) {
  return isa == Isa::avx512 && bf16_dot_preferred() ? run_bf16_dots(rounds)
                                                    : run_multiply_adds(isa, rounds);
}

const char* rounded_product_instruction(Isa isa) {
  return isa == Isa::avx512 && bf16_dot_preferred() ? "VDPBF16PS" : "fp32 multiply-adds";
}

const char* dot_product_instruction(Isa isa) {
  if (isa == Isa::portable) return "scalar";
  return isa == Isa::avx512 && has_vnni() ? "VPDPBUSD" : "VPMADDWD";
}

}  // namespace cairn::kernels
