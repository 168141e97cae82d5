// SPDX-License-Identifier: Apache-2.0
// A ragged batch of the recurrent kernels on the device.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/recurrent.hpp"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {

struct Plan {
  std::int32_t tokens = 0;
  std::vector<std::int32_t> saves;
};

/// One layer's S and window in a slot, with something of other layers before and behind.
struct Slot {
  explicit Slot(const RecurrentShape& shape)
      : state(16),
        window(state + shape.value_heads * shape.key_dim * shape.value_dim),
        end(window + 3 * shape.channels()),
        size(end + 8) {}
  std::int64_t state, window, end, size;
};

inline Floats part(const Floats& v, std::int64_t begin, std::int64_t count) {
  return Floats(v.begin() + begin, v.begin() + begin + count);
}

inline std::int64_t rows_of(const std::vector<Plan>& plans) {
  std::int64_t rows = 0;
  for (const Plan& plan : plans) rows += plan.tokens;
  return rows;
}

inline std::int32_t saves_of(const std::vector<Plan>& plans) {
  std::size_t saves = 0;
  for (const Plan& plan : plans) saves += plan.saves.size();
  return static_cast<std::int32_t>(saves);
}

/// Slices, saves and chunks of the plans; `states` are the running states on entry, slot by slot.
class Batch {
 public:
  Batch(const std::vector<Plan>& plans, const Floats& states, std::int64_t slot)
      : states_(states),
        saved_(at(saves_of(plans) * slot)),
        slices_(plans.size()),
        saves_(at(saves_of(plans))) {
    std::vector<PassSlice> slices;
    std::vector<PassSave> saves;
    std::vector<PassChunk> chunks;
    for (const Plan& plan : plans) {
      const auto index = static_cast<std::int32_t>(slices.size());
      slices.push_back({pass_.rows, states_.data() + index * slot, plan.tokens,
                        static_cast<std::int32_t>(saves.size()),
                        static_cast<std::int32_t>(plan.saves.size())});
      for (const std::int32_t tokens : plan.saves) {
        saves.push_back({saved_.data() + static_cast<std::int64_t>(saves.size()) * slot, tokens});
      }
      append_chunks(index, plan.tokens, chunks);
      pass_.rows += plan.tokens;
      pass_.longest = std::max(pass_.longest, plan.tokens);
    }
    slices_.write(slices);
    saves_.write(saves);
    chunks_ = std::make_unique<Buffer<PassChunk>>(chunks);
    pass_.slices = slices_.data();
    pass_.saves = saves_.data();
    pass_.chunks = chunks_->data();
    pass_.slice_count = static_cast<std::int32_t>(slices.size());
    pass_.chunk_count = static_cast<std::int32_t>(chunks.size());
  }

  const Pass& pass() const { return pass_; }
  Floats states() const { return states_.read(); }
  Floats saved() const { return saved_.read(); }

 private:
  Buffer<float> states_;
  Buffer<float> saved_;
  Buffer<PassSlice> slices_;
  Buffer<PassSave> saves_;
  std::unique_ptr<Buffer<PassChunk>> chunks_;
  Pass pass_;
};

}  // namespace cairn::kernels::cuda::testing
