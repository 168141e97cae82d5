// SPDX-License-Identifier: Apache-2.0
// The smallest model that has every kernel of the CUDA backend: the harness takes a millisecond a
// token and layer of anything.
#pragma once

#include <utility>

#include "model/net/config.hpp"

namespace cairn::testing {

/// One recurrent layer, one with attention, in that order or the other.
inline model::ModelConfig small_shape(bool attention_first = false) {
  model::ModelConfig c = model::shape_by_name("tiny");
  c.vocab_size = c.sampled_vocab = 64;
  c.num_layers = 2;
  c.layers = {model::LayerKind::linear_attention, model::LayerKind::full_attention};
  if (attention_first) std::swap(c.layers[0], c.layers[1]);
  c.linear_key_heads = 1;
  c.linear_value_heads = 2;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.hidden_size = 32;
  c.intermediate_size = 32;
  c.max_position_embeddings = 1024;
  return c;
}

}  // namespace cairn::testing
