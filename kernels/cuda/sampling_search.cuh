// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/sampling.cuh"

namespace cairn::kernels::cuda {

/// Finds a rank among candidates: the one where values, added up by falling rank, exceed `left`.
struct SampleSearch {
  struct Shared {
    Word digits[256];
    Word warps[kSampleThreads / 32];
    Word left;
    std::int32_t digit;
  };

  const SampleRowView& row;
  float max;
  std::int32_t first_bin, last_bin;  // of the candidates
  const Word* list;                  // of `count`; null: the row itself is searched
  std::int32_t count;

  template <class Body>
  __device__ void each(const Body& body) const {
    const float* x = row.values();
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kSampleThreads) {
      const Word rank = list != nullptr ? load_global(list + i) : rank_of(load_read_only(x + i), i);
      const std::int32_t bin = rank_bin(rank_logit(rank), max);
      if (bin >= first_bin && bin <= last_bin) body(rank);
    }
  }

  __device__ Word weight(Word rank) const { return row.weight(rank_logit(rank), max, 0); }

  /// The weights of candidates from a rank up.
  __device__ Word sum_from(Word cut, Shared& shared) const {
    Word sum = 0;
    each([&](Word rank) { sum += rank >= cut ? weight(rank) : 0; });
    return scan_block<kSampleThreads>(sum, shared.warps).total;
  }

  /// Eight bits a round, below those that all candidates left have in common.
  template <class Value>
  __device__ Word find(Word left, const Value& value, Shared& shared) const {
    Word low = 0;
    Word high = ~Word{0};
    for (int rounds = 0; rounds < 8; ++rounds) {
      Word least = ~Word{0};
      Word most = 0;
      each([&](Word rank) {
        if (rank < low || rank > high) return;
        least = rank < least ? rank : least;
        most = rank > most ? rank : most;
      });
      most = max_block<kSampleThreads>(most, shared.warps);
      least = ~max_block<kSampleThreads>(~least, shared.warps);
      if (least == most) return most;
      const int top_bit = highest_bit(least ^ most);
      const int shift = top_bit < 7 ? 0 : top_bit - 7;
      low = least >> top_bit >> 1 << 1 << top_bit;
      high = most;
      round(low, high, shift, left, value, shared);
      low += static_cast<Word>(shared.digit) << shift;
      if (shift == 0) return low;
      high = low + ((Word{1} << shift) - 1);
      left = shared.left;
    }
    return low;
  }

 private:
  template <class Value>
  __device__ void round(Word low, Word high, int shift, Word left, const Value& value,
                        Shared& shared) const {
    static_assert(kSampleThreads == 256);
    __syncthreads();
    shared.digits[threadIdx.x] = 0;
    __syncthreads();
    each([&](Word rank) {
      if (rank >= low && rank <= high) {
        atomicAdd(&shared.digits[(rank - low) >> shift], static_cast<Word>(value(rank)));
      }
    });
    __syncthreads();
    const auto digit = 255 - static_cast<std::int32_t>(threadIdx.x);
    const Word mine = shared.digits[digit];
    const Word before = scan_block<kSampleThreads>(mine, shared.warps).before;
    if (left >= before && left - before < mine) {
      shared.digit = digit;
      shared.left = left - before;
    }
    __syncthreads();
  }

  static __device__ int highest_bit(Word x) {  // x > 0
    int bit = 0;
    CAIRN_UNROLL
    for (int step = 32; step > 0; step /= 2) {
      if (x >> step == 0) continue;
      x >>= step;
      bit += step;
    }
    return bit;
  }
};

}  // namespace cairn::kernels::cuda
