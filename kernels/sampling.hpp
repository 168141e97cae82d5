// SPDX-License-Identifier: Apache-2.0
// What sampling means, once for host and device: random numbers, weights, ranks and the thresholds
// of the filters. Weights and thresholds are integers, so that sums do not depend on their order
// and a device draws the very token that the host draws. docs/order.md tells the whole.
#pragma once

#include <cstdint>

#include "kernels/dtype.hpp"

namespace cairn::kernels {

/// The weight of the most probable id. At most kMaxSampledVocab ids then sum to less than 2^63.
constexpr std::uint64_t kTopWeight = std::uint64_t{1} << 40;
constexpr std::int32_t kMaxSampledVocab = 1 << 22;

struct RandomWords {
  std::uint32_t word[4];
};

/// Philox4x32-10 (Salmon et al. 2011): four random words from a counter and a key.
CAIRN_HOST_DEVICE inline RandomWords philox4x32(RandomWords c, std::uint32_t key_low,
                                                std::uint32_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c.word[2];
    c = {{static_cast<std::uint32_t>(b >> 32) ^ c.word[1] ^ key_low, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ c.word[3] ^ key_high,
          static_cast<std::uint32_t>(a)}};
    key_low += 0x9E3779B9U;
    key_high += 0xBB67AE85U;
  }
  return c;
}

/// The random number that decides a token, as a fraction of 2^64: key = seed, counter = (token's
/// index, choice).
CAIRN_HOST_DEVICE inline std::uint64_t sampling_random(std::uint64_t seed, std::int32_t choice,
                                                       std::uint64_t index) {
  const RandomWords words =
      philox4x32({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(choice), 0}},
                 static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return static_cast<std::uint64_t>(words.word[1]) << 32 | words.word[0];
}

/// floor(a b / 2^64)
CAIRN_HOST_DEVICE inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  __extension__ using Product = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Product>(a) * b) >> 64);
#endif
}

/// Order of logits as integers: larger is larger, -0 equals 0, NaN is below -infinity.
CAIRN_HOST_DEVICE inline std::uint32_t logit_key(float x) {
  if (x != x) return 0;
  const std::uint32_t u = float_bits(x + 0.0F);
  return (u & 0x80000000U) != 0 ? ~u : u | 0x80000000U;
}
/// The logit of a key (-0 is 0).
CAIRN_HOST_DEVICE inline float key_logit(std::uint32_t key) {
  return bits_float((key & 0x80000000U) != 0 ? key & 0x7fffffffU : ~key);
}

/// Ids by falling rank: larger logit first, ties to the lower id. Never 0.
CAIRN_HOST_DEVICE inline std::uint64_t rank_of(float x, std::int32_t id) {
  return static_cast<std::uint64_t>(logit_key(x)) << 32 | ~static_cast<std::uint32_t>(id);
}
CAIRN_HOST_DEVICE inline std::int32_t rank_id(std::uint64_t rank) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(rank));
}
CAIRN_HOST_DEVICE inline float rank_logit(std::uint64_t rank) {
  return key_logit(static_cast<std::uint32_t>(rank >> 32));
}

/// Whether there is a distribution to draw from; the token is the one of highest rank otherwise.
CAIRN_HOST_DEVICE inline bool draws(float inverse_temperature, float max) {
  constexpr float kLargest = 3.402823466e+38F;
  return inverse_temperature > 0 && inverse_temperature <= kLargest && max >= -kLargest &&
         max <= kLargest;
}

/// exp(exponent) of the weight of logit x: at most 0, and no NaN, where draws() holds.
CAIRN_HOST_DEVICE inline float weight_exponent(float x, float max, float inverse_temperature) {
  const float exponent = (x - max) * inverse_temperature;
  return exponent > -104.0F ? exponent : -104.0F;  // where exp is 0
}
/// Fine near the maximum and coarse below: ids of a higher rank are in no later bin.
constexpr std::int32_t kRankBins = 2048;
CAIRN_HOST_DEVICE inline std::int32_t rank_bin(float x, float max) {
  const float below = max - x;
  if (!(below < 0x1p+16F)) return kRankBins - 1;  // a NaN, too
  if (below < 0x1p-16F) return 0;
  return static_cast<std::int32_t>((float_bits(below) >> 17) - (float_bits(0x1p-16F) >> 17));
}

/// exp(exponent) in units of 1 / kTopWeight, rounded to nearest, ties to even; 0 when it is below
/// min-p.
CAIRN_HOST_DEVICE inline std::uint64_t weight_of(float exp_exponent, float min_p) {
  constexpr float kWhole = 0x1p+23F;  // from here on every float is whole
  if (exp_exponent < (min_p > 1.0F ? 1.0F : min_p)) return 0;
  const float scaled = exp_exponent * static_cast<float>(kTopWeight);
  return static_cast<std::uint64_t>(scaled < kWhole ? (scaled + kWhole) - kWhole : scaled);
}

/// A share below 1 as a fraction of 2^64, exact down to 2^-40 and rounded down below.
CAIRN_HOST_DEVICE inline std::uint64_t share_fraction(float share) {
  return share > 0 ? static_cast<std::uint64_t>(share * 0x1p+64F) : 0;
}
/// What the run of most probable ids has to sum to, for top-p below 1.
CAIRN_HOST_DEVICE inline std::uint64_t nucleus_target(std::uint64_t total, std::uint64_t fraction) {
  const std::uint64_t target =
      multiply_high(total, fraction) + (total * fraction != 0 ? 1U : 0U);  // rounded up
  return target > 0 ? target : 1;
}
/// A logit after the penalties of an id that was seen, `generated` times of it in the answer.
CAIRN_HOST_DEVICE inline float penalised(float x, float repetition, float frequency, float presence,
                                         std::int32_t generated) {
  x = x > 0 ? x / repetition : x * repetition;
  x = x - frequency * static_cast<float>(generated);
  return generated > 0 ? x - presence : x;
}

}  // namespace cairn::kernels
