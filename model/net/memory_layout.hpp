// SPDX-License-Identifier: Apache-2.0
// Sizes of states and KV by shape alone, without a backend.
#pragma once

#include <cstddef>

#include "model/net/backend.hpp"
#include "model/net/config.hpp"

namespace cairn::model {

/// One recurrent layer's S and conv window, fp32.
std::size_t state_layer_bytes(const ModelConfig& config);

/// Where things lie in such a share of the CPU's, in bytes: S [value heads, dk, dv] at 0, the conv
/// window [taps - 1, channels], and the factors that S waits to be multiplied with [value heads,
/// groups of columns] (DeltaArgs::pending).
struct CpuStateLayer {
  std::size_t window = 0, pending = 0;
  std::size_t bytes = 0;
};
CpuStateLayer cpu_state_layer(const ModelConfig& config);

/// What a backend's pools hold for a model of this shape. Thread-safe.
MemoryLayout memory_layout(const ModelConfig& config, KvType kv);
MemoryLayout cpu_memory_layout(const ModelConfig& config, KvType kv);

/// Backend::copy_kv_slots of the CPU backend, for any thread: the first `tokens` slots of a block.
void copy_cpu_kv_slots(const ModelConfig& config, KvType kv, const std::byte* from, std::byte* to,
                       std::int32_t tokens);

}  // namespace cairn::model
