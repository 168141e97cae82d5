// SPDX-License-Identifier: Apache-2.0
// The model that gpu_check measures: Qwen3.5-0.8B, in a dry run the tiny one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/net/config.hpp"

namespace cairn::gpu_check {

const model::ModelConfig& measured_model();

/// A weight [n, k] of the model.
struct WeightShape {
  std::string name;
  std::int64_t n, k;
  bool is_head;
  /// Rows that are tried: the head sees few.
  std::int64_t most_rows() const;
};
/// One of each shape, the head last.
std::vector<WeightShape> weight_shapes();

}  // namespace cairn::gpu_check
