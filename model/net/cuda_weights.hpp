// SPDX-License-Identifier: Apache-2.0
// A model's tensors on a device, in the form the CUDA kernels read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/gemm.hpp"
#include "model/net/backend.hpp"
#include "model/net/cuda_staging.hpp"
#include "model/net/packed_weights.hpp"

namespace cairn::model {

/// A weight [n, k], in one of two forms.
struct DeviceMatrix {
  std::int64_t n = 0;
  std::int64_t k = 0;
  kernels::cuda::Bf16Weight bf16;
  kernels::cuda::Int8Weight int8;  // null when the values are in `bf16`
  bool by_library = false;         // cuBLASLt multiplies by it
  bool is_int8() const { return int8.q != nullptr; }
};

/// LayerWeights on the device; vectors fp32.
struct DeviceLayer {
  LayerKind kind = LayerKind::linear_attention;
  const float* input_norm = nullptr;
  const float* post_norm = nullptr;
  DeviceMatrix in, out, gate_up, down;
  const float* query_norm = nullptr;
  const float* key_norm = nullptr;
  const float* conv = nullptr;
  const float* a_log = nullptr;
  const float* dt_bias = nullptr;
  const float* mix_norm = nullptr;
};

/// All in one allocation. With CudaWeights::int8 the layers' matrices are rounded to 8 bits, those
/// excepted whose shape Int8Weight excludes; embedding and head stay bf16, and are one when tied.
class DeviceWeights {
 public:
  /// To be used once the upload has finished. Throws DeviceError.
  DeviceWeights(const Weights& weights, CudaWeights type, int device, Upload& upload);

  /// Bytes that the constructor will ask of the device.
  static std::size_t bytes(const Weights& weights, CudaWeights type);

  std::vector<DeviceLayer> layers;
  const Bf16* embedding = nullptr;  // [V, H]
  DeviceMatrix head;
  const float* final_norm = nullptr;

 private:
  DeviceWeights() = default;
  kernels::cuda::DeviceBuffer memory_;
};

}  // namespace cairn::model
