// SPDX-License-Identifier: Apache-2.0
// What the tests of kernels/cuda share: data on the device, the CPU kernels beside it, and
// rounding.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.hpp"
#include "kernels/dtype.hpp"
#include "tests/kernels/support.hpp"
#include "tests/simt/memory.hpp"

namespace cairn::kernels::cuda::testing {

using kernels::testing::Floats;
using kernels::testing::Random;
using kernels::testing::same_bits;
using kernels::testing::worst_error;
using simt::Buffer;
using simt::Counters;
using simt::Counting;

/// The CPU kernels whose bits all levels share.
inline const Ops& cpu() { return ops(Isa::portable); }

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

inline Floats as_floats(const std::vector<Bf16>& v) {
  Floats wide(v.size());
  std::transform(v.begin(), v.end(), wide.begin(), [](Bf16 x) { return to_float(x); });
  return wide;
}
inline const Floats& as_floats(const Floats& v) { return v; }

/// `v` after a store as Out.
template <class Out>
Floats rounded(const Floats& v) {
  if constexpr (std::is_same_v<Out, float>) {
    return v;
  } else {
    Floats r(v.size());
    std::transform(v.begin(), v.end(), r.begin(), [](float x) { return to_float(to_bf16(x)); });
    return r;
  }
}

/// "Fold by halves" of docs/order.md: a list of partial sums that halves until one is left.
inline float fold(Floats v) {
  for (; v.size() > 1; v.resize(v.size() / 2)) {
    const std::size_t half = v.size() / 2;
    for (std::size_t i = 0; i < half; ++i) v[i] = v[i] + v[i + half];
  }
  return v[0];
}

/// Whether sums of matrix instructions are as documented: in the harness by bits. A device rounds
/// inside an instruction in an order of its own, so there up to `tolerance` of a value and 8.
inline bool same_sums(const Floats& got, const Floats& want, double tolerance) {
  if constexpr (!simt::kOnDevice) return same_bits(got, want);
  return got.size() == want.size() && worst_error(got, want, 8.0) < tolerance;
}

/// A launch moved the least bytes and asked for whole sectors: the bars of docs/gpu.md.
inline void require_efficient(const Counters& counted, std::int64_t least_bytes) {
  const std::int64_t sectors = counted.loads.sectors + counted.stores.sectors;
  INFO(32 * sectors << " bytes moved, least " << least_bytes);
  REQUIRE(static_cast<double>(32 * sectors) <= 1.1 * static_cast<double>(least_bytes));
  REQUIRE(counted.loads.efficiency() >= 0.9);
  REQUIRE(counted.stores.efficiency() >= 0.9);
  REQUIRE(counted.shared.conflicts == 0);
}

}  // namespace cairn::kernels::cuda::testing
