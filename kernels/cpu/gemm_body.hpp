// SPDX-License-Identifier: Apache-2.0
// y = x W^T over packed panels, once for every instruction set.
//
// Bounds for rows x n x k on one core: 2 rows n k operations against the fma peak, 2 n k bytes of
// weights against memory. Below some 12 rows memory decides. A panel is cut into K panels whose
// weights stay in the second-level cache while all rows pass over them; fp32 accumulators wait in y
// meanwhile, which keeps them exact.
#pragma once

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/ops.hpp"

namespace cairn::kernels {

/// 64 columns by kRows rows with every accumulator in a register of 16 lanes.
template <class V>
struct WideTile {
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kDepth = 2048;  // 256 KiB of weights: second-level cache

  template <int kRows>
  static void run(const Bf16* w, std::int64_t k, const float* x, std::int64_t ldx, float* y,
                  std::int64_t ldy, bool resume) {
    V acc[kRows][4];
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < 4; ++c) acc[r][c] = resume ? V::load(y + r * ldy + 16 * c) : V::zero();
    }
    for (std::int64_t i = 0; i < k; ++i) {
      V b[4];
      V::load_pairs(w + i * kPanelColumns, b[0], b[1]);
      V::load_pairs(w + i * kPanelColumns + 32, b[2], b[3]);
      CAIRN_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const V a = V::set1(x[r * ldx + i]);
        CAIRN_UNROLL
        for (int c = 0; c < 4; ++c) acc[r][c] = V::fma(a, b[c], acc[r][c]);
      }
    }
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < 4; ++c) acc[r][c].store(y + r * ldy + 16 * c);
    }
  }
};

template <class Tile>
struct Gemm {
  static constexpr std::int64_t kDepth = Tile::kDepth;

  template <int kRows = Tile::kMaxRows>
  static void tile(int rows, const Bf16* w, std::int64_t k, const float* x, std::int64_t ldx,
                   float* y, std::int64_t ldy, bool resume) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return tile<kRows - 1>(rows, w, k, x, ldx, y, ldy, resume);
    }
    Tile::template run<kRows>(w, k, x, ldx, y, ldy, resume);
  }

  /// One panel with fewer than 64 columns: full-width tiles in a buffer, live columns copied out.
  static void narrow_panel(const Bf16* w, std::int64_t k, std::int64_t columns, const float* x,
                           std::int64_t ldx, std::int64_t rows, float* y, std::int64_t ldy) {
    alignas(64) float buffer[Tile::kMaxRows * kPanelColumns];
    for (std::int64_t r = 0; r < rows; r += Tile::kMaxRows) {
      const int count = static_cast<int>(rows - r < Tile::kMaxRows ? rows - r : Tile::kMaxRows);
      tile(count, w, k, x + r * ldx, ldx, buffer, kPanelColumns, false);
      for (int i = 0; i < count; ++i) {
        for (std::int64_t c = 0; c < columns; ++c) {
          y[(r + i) * ldy + c] = buffer[i * kPanelColumns + c];
        }
      }
    }
  }

  static void run(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                  const float* x, std::int64_t ldx, std::int64_t rows, float* y, std::int64_t ldy) {
    const std::int64_t k = w.k();
    // Equal blocks: 8 rows are 4 + 4, not 6 + 2.
    const std::int64_t blocks = (rows + Tile::kMaxRows - 1) / Tile::kMaxRows;
    for (std::int64_t p = panel_begin; p < panel_end; ++p) {
      const Bf16* panel = w.panel(p);
      float* out = y + p * kPanelColumns;
      const std::int64_t columns = w.n() - p * kPanelColumns;
      if (columns < kPanelColumns) {
        narrow_panel(panel, k, columns, x, ldx, rows, out, ldy);
        continue;
      }
      for (std::int64_t d = 0; d == 0 || d < k; d += kDepth) {
        const std::int64_t depth = k - d < kDepth ? k - d : kDepth;
        for (std::int64_t b = 0; b < blocks; ++b) {
          const std::int64_t begin = rows * b / blocks;
          const std::int64_t end = rows * (b + 1) / blocks;
          tile(static_cast<int>(end - begin), panel + d * kPanelColumns, depth, x + begin * ldx + d,
               ldx, out + begin * ldy, ldy, d > 0);
        }
      }
    }
  }
};

}  // namespace cairn::kernels
