// SPDX-License-Identifier: Apache-2.0
// Blocks and states of a test in the arena of a CUDA backend.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "model/net/backend.hpp"
#include "tests/support/exactness_sequence.hpp"

namespace cairn::testing {

/// Hands out an arena's pieces, and again those that came back. To be kept by shared_ptr: pieces
/// hold it. Not thread-safe.
class ArenaMemory : public std::enable_shared_from_this<ArenaMemory> {
 public:
  /// Where times are measured, pieces need not be `zeroed`.
  explicit ArenaMemory(std::size_t bytes, bool zeroed = true) : bytes_(bytes), zeroed_(zeroed) {}

  /// The first backend makes the arena, those after it go on with it, one at a time.
  void serve(model::Backend& backend) {
    if (arena_ == nullptr) {
      arena_ = backend.make_arena(bytes_);
    } else {
      backend.use_arena(arena_);
    }
  }

  DeviceMemory interface() {
    const auto self = shared_from_this();
    return {
        [self](std::size_t bytes) { return self->allocate(bytes); },
        [self](const std::byte* from, void* to, std::size_t bytes) {
          self->arena_->read(from, {static_cast<std::byte*>(to), bytes});
        },
        [self](const void* from, std::byte* to, std::size_t bytes) {
          self->arena_->write({static_cast<const std::byte*>(from), bytes}, to);
        },
    };
  }

  model::Arena& arena() { return *arena_; }
  std::shared_ptr<model::Arena> shared_arena() const { return arena_; }

 private:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) {
    auto& free = free_[bytes];
    if (free.empty()) {
      check(next_ + bytes <= arena_->size(), "the test's arena is full");
      free.push_back(arena_->data() + next_);
      next_ += (bytes + 255) / 256 * 256;
    }
    std::byte* const piece = free.back();
    free.pop_back();
    if (zeroed_) arena_->write(std::vector<std::byte>(bytes), piece);
    return {piece,
            [self = shared_from_this(), bytes](std::byte* p) { self->free_[bytes].push_back(p); }};
  }

  std::size_t bytes_;
  bool zeroed_;
  std::shared_ptr<model::Arena> arena_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // by size
};

}  // namespace cairn::testing
