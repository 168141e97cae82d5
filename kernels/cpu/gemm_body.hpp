// SPDX-License-Identifier: Apache-2.0
// y = x W^T over packed panels of bf16 weights, once for every instruction set.
//
// Bounds for rows x n x k on one core: 2 rows n k operations against the peak of the instruction,
// 2 n k bytes of weights against memory. Below some 12 rows memory decides. A panel is cut into K
// panels whose weights stay in a near cache while all rows pass over them; fp32 accumulators wait
// in y meanwhile, which keeps them exact.
#pragma once

#include <cstdint>

#include "kernels/cpu/codegen.hpp"
#include "kernels/cpu/flush_denormals.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/round_body.hpp"

namespace cairn::kernels {

/// 64 columns of one pair of k.
inline constexpr std::int64_t kPairBlock = 2 * kPanelColumns;

/// One block of rows times some consecutive k of one panel.
template <class Value>
struct GemmTile {
  const Bf16* w = nullptr;  // [ceil(k / 2), 64, 2]
  std::int64_t k = 0;
  const Value* x = nullptr;  // [rows, ldx], from the first k on
  std::int64_t ldx = 0;
  float* y = nullptr;  // [rows, ldy], 64 columns
  std::int64_t ldy = 0;
  bool resume = false;  // y holds the sum of the k before
  // What is multiplied next, or null: this block fetches the first half of each 256 bytes of it.
  const Bf16* ahead = nullptr;
};

/// 64 columns by kRows rows with every accumulator in a register of 16 lanes.
template <class V>
struct WideTile {
  using Value = float;
  static constexpr int kMaxRows = 6;
  static constexpr std::int64_t kDepth = 2048;  // 256 KiB of weights: second-level cache

  template <int kRows>
  static void run(const GemmTile<float>& t) {
    run_columns<kRows, 4>(t);
  }
  /// The first half of the columns.
  template <int kRows>
  static void run_half(const GemmTile<float>& t) {
    run_columns<kRows, 2>(t);
  }

 private:
  template <int kRows, int kVectors>
  CAIRN_INLINE static void run_columns(const GemmTile<float>& t) {
    V acc[kRows][kVectors];
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c)
        acc[r][c] = t.resume ? V::load(t.y + r * t.ldy + 16 * c) : V::zero();
    }
    const Bf16* w = t.w;
    std::int64_t i = 0;
    for (; i + 1 < t.k; i += 2, w += kPairBlock) {
      add<true>(w, t.x + i + 1, t.ldx, acc);
      add<false>(w, t.x + i, t.ldx, acc);
    }
    if (i < t.k) add<false>(w, t.x + i, t.ldx, acc);
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) acc[r][c].store(t.y + r * t.ldy + 16 * c);
    }
  }

  /// One k: the high or the low half of each word.
  template <bool kHigh, int kRows, int kVectors>
  CAIRN_INLINE static void add(const Bf16* w, const float* x, std::int64_t ldx,
                               V (&acc)[kRows][kVectors]) {
    V b[kVectors];
    CAIRN_UNROLL
    for (int c = 0; c < kVectors; ++c)
      b[c] = kHigh ? V::load_high(w + 32 * c) : V::load_low(w + 32 * c);
    CAIRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const V a = V::set1(x[r * ldx]);
      CAIRN_UNROLL
      for (int c = 0; c < kVectors; ++c) acc[r][c] = V::fma(a, b[c], acc[r][c]);
    }
  }
};

template <class Tile>
struct Gemm {
  using Value = typename Tile::Value;
  static constexpr std::int64_t kDepth = Tile::kDepth;
  static_assert(kDepth % 2 == 0);

  /// kHalf: only the first half of the columns is wanted.
  template <bool kHalf = false, int kRows = Tile::kMaxRows>
  static void tile(int rows, const GemmTile<Value>& t) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return tile<kHalf, kRows - 1>(rows, t);
    }
    if constexpr (kHalf && requires { Tile::template run_half<kRows>(t); }) {
      Tile::template run_half<kRows>(t);
    } else {
      Tile::template run<kRows>(t);
    }
  }

  /// One panel with fewer than 64 columns: tiles in a buffer, live columns copied out.
  static void narrow_panel(const Bf16* w, std::int64_t k, std::int64_t columns, const Value* x,
                           std::int64_t ldx, std::int64_t rows, float* y, std::int64_t ldy) {
    alignas(64) float buffer[Tile::kMaxRows * kPanelColumns];
    for (std::int64_t r = 0; r < rows; r += Tile::kMaxRows) {
      const int count = static_cast<int>(rows - r < Tile::kMaxRows ? rows - r : Tile::kMaxRows);
      const GemmTile<Value> t{w, k, x + r * ldx, ldx, buffer, kPanelColumns, false, nullptr};
      if (columns <= kPanelColumns / 2) {
        tile<true>(count, t);
      } else {
        tile(count, t);
      }
      for (int i = 0; i < count; ++i) {
        for (std::int64_t c = 0; c < columns; ++c) {
          y[(r + i) * ldy + c] = buffer[i * kPanelColumns + c];
        }
      }
    }
  }

  static void panel(const Bf16* w, std::int64_t k, const Value* x, std::int64_t ldx,
                    std::int64_t rows, float* y, std::int64_t ldy) {
    // Equal blocks: 8 rows are 4 + 4, not 6 + 2.
    const std::int64_t blocks = (rows + Tile::kMaxRows - 1) / Tile::kMaxRows;
    for (std::int64_t d = 0; d == 0 || d < k; d += kDepth) {
      GemmTile<Value> t;
      t.w = w + d * kPanelColumns;
      t.k = k - d < kDepth ? k - d : kDepth;
      t.ldx = ldx;
      t.ldy = ldy;
      t.resume = d > 0;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t begin = rows * b / blocks;
        t.x = x + begin * ldx + d;
        t.y = y + begin * ldy;
        // One block meets its weights as the processor fetches them. Of more, the first would wait
        // for memory and the others for the first: two share the fetching of the next weights.
        t.ahead = blocks > 1 && b < 2 ? t.w + t.k * kPanelColumns + 64 * b : nullptr;
        tile(static_cast<int>(rows * (b + 1) / blocks - begin), t);
      }
    }
  }

  static void run(const PackedMatrix& w, std::int64_t k, std::int64_t panel_begin,
                  std::int64_t panel_end, const Value* x, std::int64_t ldx, std::int64_t rows,
                  float* y, std::int64_t ldy) {
    for (std::int64_t p = panel_begin; p < panel_end; ++p) {
      float* out = y + p * kPanelColumns;
      const std::int64_t columns = w.n() - p * kPanelColumns;
      if (columns < kPanelColumns) {
        narrow_panel(w.panel(p), k, columns, x, ldx, rows, out, ldy);
      } else {
        panel(w.panel(p), k, x, ldx, rows, out, ldy);
      }
    }
  }

  /// Ops::gemm.
  static void plain(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                    const float* x, std::int64_t ldx, std::int64_t rows, float* y,
                    std::int64_t ldy) {
    run(w, w.k(), panel_begin, panel_end, x, ldx, rows, y, ldy);
  }

  /// Ops::gemm_rounded.
  static void rounded(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                      const RoundedRows& x, std::int64_t row_begin, std::int64_t rows, float* y,
                      std::int64_t ldy) {
    const FlushDenormals flush;
    run(w, (w.k() + 1) / 2 * 2, panel_begin, panel_end,
        reinterpret_cast<const Value*>(x.data) + row_begin * x.ld, x.ld, rows, y, ldy);
  }
};

/// Ops::round_rows where products read fp32.
template <class V>
struct RoundRows {
  static void run(const float* x, std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                  const RoundedRows& to) {
    for (std::int64_t r = row_begin; r < row_end; ++r) {
      const float* from = x + r * ldx;
      float* const out = reinterpret_cast<float*>(to.data) + r * to.ld;
      std::int64_t i = 0;
      for (; i + 16 <= to.k; i += 16) round_bf16_lanes(V::load(from + i)).store(out + i);
      if (i == to.k) continue;
      const int rest = static_cast<int>(to.k - i);
      round_bf16_lanes(V::load_n(from + i, rest)).store(out + i);  // zeros, up to a whole line
    }
  }
};

}  // namespace cairn::kernels
