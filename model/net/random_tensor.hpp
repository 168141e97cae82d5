// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/net/config.hpp"
#include "model/net/tensor_list.hpp"

namespace cairn::model {

/// Draws one tensor of a random model, rows ascending. The values depend on seed and tensor name
/// only and are exact in the published type (bf16 or fp32).
class RandomTensor {
 public:
  RandomTensor(const ModelConfig& config, std::uint64_t seed, const TensorSpec& spec);

  /// The next `n` elements, row-major.
  void next(std::int64_t n, std::vector<float>& out);

 private:
  std::uint64_t state_;  // splitmix64
  float low_ = 0;        // uniform in [low, low + width)
  float width_ = 0;
  bool bf16_ = true;
};

}  // namespace cairn::model
