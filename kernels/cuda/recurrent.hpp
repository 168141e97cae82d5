// SPDX-License-Identifier: Apache-2.0
// What the kernels of a recurrent layer share: its shape, and the slices of a pass.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

struct RecurrentShape {
  std::int32_t key_heads = 0;
  std::int32_t value_heads = 0;  // a multiple of key_heads; value head h uses key head h / ratio
  std::int32_t key_dim = 0;      // 128 or 16
  std::int32_t value_dim = 0;    // a multiple of 16

  CAIRN_HOST_DEVICE constexpr std::int64_t keys() const {
    return static_cast<std::int64_t>(key_heads) * key_dim;
  }
  CAIRN_HOST_DEVICE constexpr std::int64_t values() const {
    return static_cast<std::int64_t>(value_heads) * value_dim;
  }
  CAIRN_HOST_DEVICE constexpr std::int64_t channels() const {
    return 2 * keys() + values();
  }  // q | k | v
};

/// A state that a pass leaves on its way.
struct PassSave {
  float* state = nullptr;   // a state slot, no slice's running one and no other save's
  std::int32_t tokens = 0;  // of its slice that the state covers, 1..tokens
};

/// One sequence's rows of a pass. Without tokens it is nothing: a batch filled up to its bucket.
struct PassSlice {
  std::int64_t row = 0;    // of its first token in the packed arrays
  float* state = nullptr;  // the running state's slot, advanced by the pass
  std::int32_t tokens = 0;
  std::int32_t first_save = 0;  // in Pass::saves, ascending by tokens
  std::int32_t saves = 0;
};

/// Tokens of one slice that a block convolves.
constexpr std::int32_t kChunkTokens = 16;
struct PassChunk {
  std::int32_t slice = 0;
  std::int32_t token = 0;  // the first, a multiple of kChunkTokens
};

/// A ragged batch; the same for every layer. Device pointers.
struct Pass {
  const PassSlice* slices = nullptr;  // [slice_count]
  const PassSave* saves = nullptr;    // of all slices
  const PassChunk* chunks = nullptr;  // [chunk_count], of all slices (append_chunks)
  std::int32_t slice_count = 0;
  std::int32_t chunk_count = 0;
  std::int64_t rows = 0;     // of all slices, with gaps or without
  std::int32_t longest = 0;  // tokens of the longest slice
  bool operator==(const Pass&) const = default;
};

inline void append_chunks(std::int32_t slice, std::int32_t tokens, std::vector<PassChunk>& chunks) {
  for (std::int32_t token = 0; token < tokens; token += kChunkTokens) {
    chunks.push_back({slice, token});
  }
}

}  // namespace cairn::kernels::cuda
