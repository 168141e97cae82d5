// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/packed.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "kernels/cpu/quantised.hpp"

namespace cairn::kernels {

const char* to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::int8:
      return "int8";
    case WeightFormat::int4:
      return "int4";
    default:
      return "bf16";
  }
}

HugeBuffer::HugeBuffer(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  // A mapping of a huge page and more is rounded up so that its tail can be one too.
  const std::size_t unit = bytes >= kHuge ? kHuge : 4096;
  mapped_ = (bytes + unit - 1) / unit * unit;
  void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  if (unit == kHuge) madvise(p, mapped_, MADV_HUGEPAGE);  // a hint: failing costs speed only
  data_ = static_cast<std::byte*>(p);
}

HugeBuffer::~HugeBuffer() { release(); }

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, 0);
  }
  return *this;
}

void HugeBuffer::release() {
  if (data_ != nullptr) munmap(data_, mapped_);
  data_ = nullptr;
}

std::size_t PackedMatrix::panel_bytes(std::int64_t k, WeightFormat format) {
  if (format == WeightFormat::bf16)
    return static_cast<std::size_t>((k + 1) / 2 * 2 * kPanelColumns) * sizeof(Bf16);
  return static_cast<std::size_t>(quant_groups(k, format)) * group_bytes(format);
}

std::size_t PackedMatrix::bytes_for(std::int64_t n, std::int64_t k, WeightFormat format) {
  return static_cast<std::size_t>(panels_of(n)) * panel_bytes(k, format);
}

PackedMatrix::PackedMatrix(std::int64_t n, std::int64_t k, WeightFormat format)
    : n_(n), k_(k), format_(format) {
  check(n >= 0 && k >= 0, "a packed matrix has no negative dimension");
  panel_bytes_ = panel_bytes(k, format);
  buffer_ = HugeBuffer(bytes_for(n, k, format));
}

template <class Read>
void PackedMatrix::pack_plain(std::int64_t n_begin, std::int64_t rows, Read read) {
  constexpr std::int64_t kStep =
      64;  // 64 k of 64 columns are 8 KiB: written while in the first-level cache
  for (std::int64_t r = 0; r < rows;) {
    const std::int64_t column = (n_begin + r) % kPanelColumns;
    const std::int64_t count = std::min(kPanelColumns - column, rows - r);
    Bf16* to = panel((n_begin + r) / kPanelColumns);
    for (std::int64_t k = 0; k < k_; k += kStep) {
      const std::int64_t end = std::min(k + kStep, k_);
      for (std::int64_t c = 0; c < count; ++c) {
        for (std::int64_t i = k; i < end; ++i) {
          to[2 * (i / 2 * kPanelColumns + column + c) + i % 2] = read((r + c) * k_ + i);
        }
      }
    }
    r += count;
  }
}

template <class Read>
void PackedMatrix::pack_quantised(std::int64_t n_begin, std::int64_t rows, Read read) {
  const std::int64_t groups = quant_groups(k_, format_);
  const std::int64_t group = quant_group(format_);
  float values[kMaxQuantGroup];
  std::int8_t quantised[kMaxQuantGroup];
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t n = n_begin + r;
    std::byte* panel = buffer_.data() + static_cast<std::size_t>(n / kPanelColumns) * panel_bytes_;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t count = std::min(group, k_ - g * group);
      for (std::int64_t i = 0; i < count; ++i) values[i] = read(r * k_ + g * group + i);
      std::fill(values + count, values + group, 0.0F);
      const Bf16 scale = quantise_weights(format_, values, quantised);
      store_group_column(format_, panel + static_cast<std::size_t>(g) * group_bytes(format_),
                         n % kPanelColumns, scale, quantised);
    }
  }
}

void PackedMatrix::pack(std::int64_t n_begin, std::int64_t rows, const Bf16* source) {
  check(n_begin >= 0 && rows >= 0 && n_begin + rows <= n_, "packed rows lie inside the matrix");
  if (format_ == WeightFormat::bf16) {
    pack_plain(n_begin, rows, [source](std::int64_t i) { return source[i]; });
  } else {
    pack_quantised(n_begin, rows, [source](std::int64_t i) { return to_float(source[i]); });
  }
}

void PackedMatrix::pack(std::int64_t n_begin, std::int64_t rows, const float* source) {
  check(n_begin >= 0 && rows >= 0 && n_begin + rows <= n_, "packed rows lie inside the matrix");
  if (format_ != WeightFormat::bf16) {
    pack_quantised(n_begin, rows, [source](std::int64_t i) { return source[i]; });
    return;
  }
  pack_plain(n_begin, rows, [source](std::int64_t i) {
    const std::uint32_t bits = float_bits(source[i]);
    check((bits & 0xffffU) == 0, "a weight that bf16 cannot hold is converted before packing");
    return Bf16{static_cast<std::uint16_t>(bits >> 16)};
  });
}

}  // namespace cairn::kernels
