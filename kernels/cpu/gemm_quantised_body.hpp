// SPDX-License-Identifier: Apache-2.0
// y = x W^T over panels of integer weights, once for every instruction set.
//
// A panel is cut into K panels whose weights stay in a near cache while all rows pass over them;
// the fp32 sums wait in y meanwhile, which keeps them exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/quantised.hpp"

namespace cairn::kernels {

/// One group of a panel's weights as a tile that unpacks them has them, for all rows that follow.
struct UnpackedGroup {
  alignas(64) std::int16_t value[quant_group(WeightFormat::int8) * kPanelColumns];
  alignas(64) std::int32_t crossed[kPanelColumns];  // what each column's products alone add up to
};

/// One block of rows times some consecutive groups of one panel.
struct QuantTile {
  const std::byte* w = nullptr;  // the first group
  std::int64_t groups = 0;
  const std::int8_t* a = nullptr;  // [rows, lda], from the first group on
  std::int64_t lda = 0;
  const float* scales = nullptr;              // [rows, ld_groups], from the first group on
  const std::int32_t* corrections = nullptr;  // [rows, ld_groups], likewise
  std::int64_t ld_groups = 0;
  float* y = nullptr;  // [rows, ldy], 64 columns
  std::int64_t ldy = 0;
  bool resume = false;  // y holds the sum of the groups before
  bool alone = false;   // the only block: its weights come from memory as it goes
  // What is multiplied next, or null: this block fetches the first half of each 256 bytes of it.
  const std::byte* ahead = nullptr;
  const UnpackedGroup* unpacked = nullptr;  // the only group's weights unpacked, or null
};

/// What a tile is that takes weights as they lie.
struct TakesPacked {
  static constexpr int kUnpackedRows = 1;
  template <WeightFormat>
  static constexpr bool unpacks(std::int64_t) {
    return false;
  }
  static void unpack(const std::byte*, UnpackedGroup&) {}
};

/// In plain C++, one row at a time.
struct QuantTilePortable : TakesPacked {
  static constexpr int kMaxRows = 1;
  static constexpr std::int64_t kGroups = 8;

  template <int kRows, WeightFormat kFormat>
  static void run(const QuantTile& t) {
    static_assert(kRows == 1);
    constexpr std::int64_t kGroup = quant_group(kFormat);
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      float sum = t.resume ? t.y[c] : 0.0F;
      std::int8_t q[kGroup];
      for (std::int64_t g = 0; g < t.groups; ++g) {
        const float scale = load_group_column(
            kFormat, t.w + static_cast<std::size_t>(g) * group_bytes(kFormat), c, q);
        std::int32_t exact = 0;
        for (std::int64_t i = 0; i < kGroup; ++i) exact += t.a[g * kGroup + i] * q[i];
        sum = __builtin_fmaf(static_cast<float>(exact), t.scales[g] * scale, sum);
      }
      t.y[c] = sum;
    }
  }
};

template <class Tile>
struct GemmQuantised {
  template <WeightFormat kFormat, int kRows = Tile::kMaxRows>
  static void tile(int rows, const QuantTile& t) {
    if constexpr (kRows > 1) {
      if (rows < kRows) return tile<kFormat, kRows - 1>(rows, t);
    }
    Tile::template run<kRows, kFormat>(t);
  }

  /// All rows over one panel; y is the panel's first column.
  template <WeightFormat kFormat>
  static void panel(const std::byte* w, const QuantRows& x, std::int64_t row_begin,
                    std::int64_t rows, float* y, std::int64_t ldy) {
    const bool unpacks = Tile::template unpacks<kFormat>(rows);
    const int most = unpacks ? Tile::kUnpackedRows : Tile::kMaxRows;
    // Equal blocks: 8 rows are 4 + 4, not 6 + 2.
    const std::int64_t blocks = (rows + most - 1) / most;
    UnpackedGroup unpacked;
    for (std::int64_t g = 0; g == 0 || g < x.groups; g += Tile::kGroups) {
      QuantTile t;
      t.w = w + static_cast<std::size_t>(g) * group_bytes(kFormat);
      t.groups = x.groups - g < Tile::kGroups ? x.groups - g : Tile::kGroups;
      t.lda = x.ld;
      t.ld_groups = x.groups;
      t.ldy = ldy;
      t.resume = g > 0;
      t.alone = blocks == 1;
      const std::byte* next = t.w + static_cast<std::size_t>(t.groups) * group_bytes(kFormat);
      if (unpacks && t.groups > 0) {
        Tile::unpack(t.w, unpacked);
        t.unpacked = &unpacked;
      }
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t begin = rows * b / blocks;
        const std::int64_t row = row_begin + begin;
        t.a = x.values + row * x.ld + g * quant_group(kFormat);
        t.scales = x.scales + row * x.groups + g;
        t.corrections = x.corrections + row * x.groups + g;
        t.y = y + begin * ldy;
        // One block meets its weights as the processor fetches them. Of more, the first would wait
        // for memory and the others for the first: two share the fetching of the next weights.
        t.ahead = blocks > 1 && b < 2 ? next + 128 * b : nullptr;
        tile<kFormat>(static_cast<int>(rows * (b + 1) / blocks - begin), t);
      }
    }
  }

  /// One panel with fewer than 64 columns: full-width tiles in a buffer, live columns copied out.
  template <WeightFormat kFormat>
  static void narrow_panel(const std::byte* w, std::int64_t columns, const QuantRows& x,
                           std::int64_t row_begin, std::int64_t rows, float* y, std::int64_t ldy) {
    alignas(64) float buffer[Tile::kMaxRows * kPanelColumns] = {};
    for (std::int64_t r = 0; r < rows; r += Tile::kMaxRows) {
      const std::int64_t count = rows - r < Tile::kMaxRows ? rows - r : Tile::kMaxRows;
      panel<kFormat>(w, x, row_begin + r, count, buffer, kPanelColumns);
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t c = 0; c < columns; ++c) {
          y[(r + i) * ldy + c] = buffer[i * kPanelColumns + c];
        }
      }
    }
  }

  template <WeightFormat kFormat>
  static void panels(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                     const QuantRows& x, std::int64_t row_begin, std::int64_t rows, float* y,
                     std::int64_t ldy) {
    for (std::int64_t p = panel_begin; p < panel_end; ++p) {
      const std::int64_t columns = w.n() - p * kPanelColumns;
      float* out = y + p * kPanelColumns;
      if (columns < kPanelColumns) {
        narrow_panel<kFormat>(w.panel_data(p), columns, x, row_begin, rows, out, ldy);
      } else {
        panel<kFormat>(w.panel_data(p), x, row_begin, rows, out, ldy);
      }
    }
  }

  static void run(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                  const QuantRows& x, std::int64_t row_begin, std::int64_t rows, float* y,
                  std::int64_t ldy) {
    if (w.format() == WeightFormat::int8) {
      panels<WeightFormat::int8>(w, panel_begin, panel_end, x, row_begin, rows, y, ldy);
    } else {
      panels<WeightFormat::int4>(w, panel_begin, panel_end, x, row_begin, rows, y, ldy);
    }
  }
};

}  // namespace cairn::kernels
