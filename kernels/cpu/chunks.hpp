// SPDX-License-Identifier: Apache-2.0
// Work cut into chunks for the threads of a pool, by the CPU backend and by what measures its
// kernels alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/thread_pool.hpp"

namespace cairn::kernels {

inline constexpr std::int64_t kRowGrain = 4;         // rows of element-wise work worth a chunk
inline constexpr std::int64_t kRoundGrain = 8;       // rows rounded for a product worth a chunk
inline constexpr std::int64_t kCopyGrain = 1 << 18;  // bytes of a state: a core alone has half of
                                                     // the memory's bandwidth

/// fn(begin, end) over [0, n), at least `grain` at a time, in no more chunks than even out unequal
/// ones. Calls nothing for n = 0.
template <class F>
void split(ThreadPool& pool, std::int64_t n, std::int64_t grain, F&& fn) {
  const std::int64_t chunks =
      std::min<std::int64_t>((n + grain - 1) / grain, std::int64_t{6} * pool.threads());
  if (chunks <= 1) {
    if (n > 0) fn(std::int64_t{0}, n);
    return;
  }
  pool.run(chunks, [&](std::int64_t c) {
    const std::int64_t begin = n * c / chunks;
    const std::int64_t end = n * (c + 1) / chunks;
    if (begin < end) fn(begin, end);
  });
}

/// multiply(first_panel, last_panel, first_row, last_row) over all panels and rows of a product:
/// few rows as by split(), more in small chunks of one panel, so that threads end together. All
/// panels of the first rows come first: a thread that keeps to its share keeps those rows in its
/// cache.
template <class F>
void split_product(ThreadPool& pool, std::int64_t panels, std::int64_t rows, F&& multiply) {
  constexpr std::int64_t kSinglePanels = 16;  // rows that make one panel worth a chunk
  constexpr std::int64_t kHalfRows = 48;      // rows that make one panel worth two
  if (rows == 0) return;
  if (rows < kSinglePanels) {
    return split(pool, panels, 1, [&](std::int64_t begin, std::int64_t end) {
      multiply(begin, end, std::int64_t{0}, rows);
    });
  }
  const std::int64_t parts = rows < 2 * kHalfRows ? 1 : 2;
  pool.run(parts * panels, [&](std::int64_t chunk) {
    const std::int64_t panel = chunk % panels;
    const std::int64_t part = chunk / panels;
    multiply(panel, panel + 1, rows * part / parts, rows * (part + 1) / parts);
  });
}

}  // namespace cairn::kernels
