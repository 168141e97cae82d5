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

/// Backend::copy_kv_slots of the CPU backend, for any thread: the first `tokens` slots of a block.
void copy_cpu_kv_slots(const ModelConfig& config, KvType kv, const std::byte* from, std::byte* to,
                       std::int32_t tokens);

}  // namespace cairn::model
