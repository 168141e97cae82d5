// SPDX-License-Identifier: Apache-2.0
// Weight matrices in the layout that every matrix kernel reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.hpp"

namespace cairn::kernels {

/// Columns of a panel: output features that are computed together.
inline constexpr std::int64_t kPanelColumns = 64;

/// How a matrix keeps its weights. The integer formats are described in kernels/cpu/quantised.hpp.
enum class WeightFormat : std::uint8_t { bf16, int8, int4 };

/// "bf16", "int8", "int4".
const char* to_string(WeightFormat format);

/// Anonymous zeroed memory on huge pages where the system grants them; 64-byte aligned. Move-only.
/// Throws std::bad_alloc.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(std::size_t bytes);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void release();
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;    // asked for
  std::size_t mapped_ = 0;  // whole pages
};

/// A weight [n, k] (n outputs, k inputs; a file's row is an output) as panels of 64 outputs, the
/// last one padded. Move-only; immutable once packed, then readable from any thread.
///
/// bf16: panels [ceil(n / 64)][ceil(k / 2)][64 columns][2], padded with zeros: a 32-bit word holds
/// k = 2 i in its low half and k = 2 i + 1 in its high half, which VDPBF16PS multiplies as they are
/// and a shift and a mask widen.
///
/// int8, int4: panels [ceil(n / 64)][ceil(k / G)] of groups of G values of k (quant_group). A group
/// is 64 bf16 scales, of which 32-bit word 16 g + i holds that of column 32 g + i in its low half
/// and that of column 32 g + 16 + i in its high half, and then, with z the format's zero (128 or
/// 8),
///   int8 [G / 4][64 columns][4] bytes: byte j of step s is weight k = 4 s + j, plus z;
///   int4 [G / 8][64 columns][4] bytes: the low half of byte j of step s is weight k = 8 s + j, the
///        high half weight k = 8 s + 4 + j, plus z.
/// Columns past n have scale 0; weights past k are 0, stored as z.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(std::int64_t n, std::int64_t k, WeightFormat format = WeightFormat::bf16);

  /// bytes() of such a matrix, before its memory is taken.
  static std::size_t bytes_for(std::int64_t n, std::int64_t k, WeightFormat format);

  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  WeightFormat format() const { return format_; }
  std::int64_t panels() const { return panels_of(n_); }
  std::size_t bytes() const { return buffer_.size(); }

  /// The whole matrix in its layout: what a file of packed weights stores, and where it is read to.
  std::span<const std::byte> memory() const { return {buffer_.data(), buffer_.size()}; }
  std::span<std::byte> memory() { return {buffer_.data(), buffer_.size()}; }

  /// One panel, whatever the format.
  const std::byte* panel_data(std::int64_t p) const {
    return buffer_.data() + static_cast<std::size_t>(p) * panel_bytes_;
  }

  /// bf16 only.
  const Bf16* panel(std::int64_t p) const {  // [ceil(k / 2), 64, 2] bf16
    return reinterpret_cast<const Bf16*>(panel_data(p));
  }
  Bf16* panel(std::int64_t p) {
    return reinterpret_cast<Bf16*>(buffer_.data() + static_cast<std::size_t>(p) * panel_bytes_);
  }

  /// bf16: where column c (0..63) of one k stands among the values of a panel.
  static constexpr std::int64_t place(std::int64_t k, std::int64_t c) {
    return (k / 2 * kPanelColumns + c) * 2 + k % 2;
  }
  /// Where the scale of column c (0..63) stands among the 64 of a group.
  static constexpr std::int64_t slot(std::int64_t c) {
    return (c / 32) * 32 + 2 * (c % 16) + (c % 32) / 16;
  }

  /// Writes outputs [n_begin, n_begin + rows) from a file's rows, quantised where the format is an
  /// integer one; several weights with one k can share one matrix this way. Calls for disjoint rows
  /// may run at the same time. An integer format refuses weights that are not finite: throws
  /// InvariantError.
  void pack(std::int64_t n_begin, std::int64_t rows,
            const Bf16* source);  // [rows, k] bf16
  /// The same from fp32 values. bf16 never rounds: throws InvariantError for a value that it cannot
  /// hold.
  void pack(std::int64_t n_begin, std::int64_t rows,
            const float* source);  // [rows, k] fp32

 private:
  static constexpr std::int64_t panels_of(std::int64_t n) {
    return (n + kPanelColumns - 1) / kPanelColumns;
  }
  static std::size_t panel_bytes(std::int64_t k, WeightFormat format);
  template <class Read>
  void pack_plain(std::int64_t n_begin, std::int64_t rows, Read read);
  template <class Read>
  void pack_quantised(std::int64_t n_begin, std::int64_t rows, Read read);

  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  WeightFormat format_ = WeightFormat::bf16;
  std::size_t panel_bytes_ = 0;
  HugeBuffer buffer_;
};

}  // namespace cairn::kernels
