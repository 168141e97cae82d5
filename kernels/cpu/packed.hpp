// SPDX-License-Identifier: Apache-2.0
// Weight matrices in the layout that every matrix kernel reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace cairn::kernels {

/// Columns of a panel: output features that are computed together.
inline constexpr std::int64_t kPanelColumns = 64;

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

/// A weight [n, k] (n outputs, k inputs; a file's row is an output) as panels
/// [ceil(n / 64)][k][64] bf16, the last one padded with zeros. Of the 64 columns of one k, 32-bit
/// word 16 g + i holds column 32 g + i in its low half and column 32 g + 16 + i in its high half,
/// so that a shift and a mask widen 32 columns. Move-only; immutable once packed, then readable
/// from any thread.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(std::int64_t n, std::int64_t k);

  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  std::int64_t panels() const { return (n_ + kPanelColumns - 1) / kPanelColumns; }
  std::size_t bytes() const { return buffer_.size(); }

  const Bf16* panel(std::int64_t p) const {  // [k, 64] bf16, interleaved as above
    return reinterpret_cast<const Bf16*>(buffer_.data()) + p * k_ * kPanelColumns;
  }
  Bf16* panel(std::int64_t p) {
    return reinterpret_cast<Bf16*>(buffer_.data()) + p * k_ * kPanelColumns;
  }

  /// Where column c (0..63) of one k stands among the 64 values.
  static constexpr std::int64_t slot(std::int64_t c) {
    return (c / 32) * 32 + 2 * (c % 16) + (c % 32) / 16;
  }

  /// Writes outputs [n_begin, n_begin + rows) from a file's rows; several weights with one k can
  /// share one matrix this way. Calls for disjoint rows may run at the same time.
  void pack(std::int64_t n_begin, std::int64_t rows,
            const Bf16* source);  // [rows, k] bf16
  /// The same from fp32 values that bf16 holds exactly. Packing never rounds: throws InvariantError
  /// otherwise.
  void pack(std::int64_t n_begin, std::int64_t rows,
            const float* source);  // [rows, k] fp32

 private:
  template <class Read>
  void pack_with(std::int64_t n_begin, std::int64_t rows, Read read);

  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  HugeBuffer buffer_;
};

}  // namespace cairn::kernels
