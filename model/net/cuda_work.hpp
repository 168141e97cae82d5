// SPDX-License-Identifier: Apache-2.0
// What a step works in besides weights, blocks and states: sized for the largest step, allocated
// once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/kv_slots.hpp"
#include "model/net/backend.hpp"
#include "model/net/cuda_batch.hpp"
#include "model/net/packed_weights.hpp"

namespace cairn::model {

struct WorkSizes {
  BatchLimits batch;
  std::int64_t rows = 0;          // of every array: batch.rows, or more where a library pads
  std::int64_t decode_parts = 0;  // tiles times ranges that one attention_decode may have
  std::int64_t wide = 0;          // columns of the widest projection that is stored in fp32
};

/// Views of one allocation, [sizes.rows, ...] where nothing else is said.
class DeviceWork {
 public:
  /// To be used once the upload has finished. Throws DeviceError.
  DeviceWork(const Weights& weights, const WorkSizes& sizes, int device, Upload& upload);
  static std::size_t bytes(const Weights& weights, const WorkSizes& sizes);

  float* x = nullptr;            // residual stream, [H]
  float* update = nullptr;       // of mixer or MLP, not added yet: [H]
  Bf16* normed = nullptr;        // input of the projections, [H]
  float* wide = nullptr;         // projections, [sizes.wide]
  float* qkv = nullptr;          // after the convolution, [CD]
  float* gates = nullptr;        // [value heads, 2]
  float* recurred = nullptr;     // [value heads, dv]
  std::byte* queries = nullptr;  // [heads, head_dim] of the cache's type
  Bf16* mixed = nullptr;         // of attention or recurrence, before the output projection
  Bf16* inner = nullptr;         // of the MLP, [I]
  float* attention = nullptr;    // parts of ranges
  kernels::cuda::GemmWorkspace gemm;
  std::byte* tables = nullptr;  // [StepBatch::most_bytes]
  const float* cos = nullptr;   // [context, rotary_dim / 2]
  const float* sin = nullptr;
  // [2, 17]: of 0 .. 16 slots from block 0 to 1, and from 1 to 0.
  const kernels::cuda::KvSlotCopy* slot_copies = nullptr;

 private:
  DeviceWork() = default;
  // Sets the pointers and returns the bytes up to the last one's end.
  std::size_t carve(const Weights& weights, const WorkSizes& sizes, std::byte* memory);
  void fill(const ModelConfig& config, const WorkSizes& sizes, Upload& upload);

  kernels::cuda::DeviceBuffer memory_;
  std::size_t arrived_bytes_ = 0;
};

}  // namespace cairn::model
