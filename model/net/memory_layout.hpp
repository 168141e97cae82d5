// SPDX-License-Identifier: Apache-2.0
// Sizes of states and KV by shape alone, without a backend.
#pragma once

#include <cstddef>

#include "model/net/backend.hpp"
#include "model/net/config.hpp"

namespace cairn::model {

/// One recurrent layer's S and conv window, fp32.
std::size_t state_layer_bytes(const ModelConfig& config);

/// What the backends' pools hold for a model of this shape. Thread-safe.
MemoryLayout memory_layout(const ModelConfig& config, KvType kv);

}  // namespace cairn::model
