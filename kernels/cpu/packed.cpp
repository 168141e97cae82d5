// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/packed.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.hpp"

namespace cairn::kernels {

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

PackedMatrix::PackedMatrix(std::int64_t n, std::int64_t k) : n_(n), k_(k) {
  check(n >= 0 && k >= 0, "a packed matrix has no negative dimension");
  buffer_ = HugeBuffer(static_cast<std::size_t>(panels() * kPanelColumns * k) * sizeof(Bf16));
}

template <class Read>
void PackedMatrix::pack_with(std::int64_t n_begin, std::int64_t rows, Read read) {
  check(n_begin >= 0 && rows >= 0 && n_begin + rows <= n_, "packed rows lie inside the matrix");
  constexpr std::int64_t kStep =
      64;  // 64 k of 64 columns are 8 KiB: written while in the first-level cache
  for (std::int64_t r = 0; r < rows;) {
    const std::int64_t column = (n_begin + r) % kPanelColumns;
    const std::int64_t count = std::min(kPanelColumns - column, rows - r);
    Bf16* to = panel((n_begin + r) / kPanelColumns);
    for (std::int64_t k = 0; k < k_; k += kStep) {
      const std::int64_t end = std::min(k + kStep, k_);
      for (std::int64_t c = 0; c < count; ++c) {
        const std::int64_t at = slot(column + c);
        for (std::int64_t i = k; i < end; ++i) {
          to[i * kPanelColumns + at] = read((r + c) * k_ + i);
        }
      }
    }
    r += count;
  }
}

void PackedMatrix::pack(std::int64_t n_begin, std::int64_t rows, const Bf16* source) {
  pack_with(n_begin, rows, [source](std::int64_t i) { return source[i]; });
}

void PackedMatrix::pack(std::int64_t n_begin, std::int64_t rows, const float* source) {
  pack_with(n_begin, rows, [source](std::int64_t i) {
    const std::uint32_t bits = float_bits(source[i]);
    check((bits & 0xffffU) == 0, "a weight that bf16 cannot hold is converted before packing");
    return Bf16{static_cast<std::uint16_t>(bits >> 16)};
  });
}

}  // namespace cairn::kernels
