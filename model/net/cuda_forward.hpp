// SPDX-License-Identifier: Apache-2.0
// Queues the launches of a step: nine a layer while every slice has one row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cublaslt.hpp"
#include "model/net/config.hpp"
#include "model/net/cuda_batch.hpp"
#include "model/net/cuda_weights.hpp"
#include "model/net/cuda_work.hpp"

namespace cairn::model {

/// Where a step's launches go and what they work on.
struct ForwardStep {
  kernels::cuda::Stream stream = nullptr;
  StepTables tables;
  std::byte* arena = nullptr;  // of blocks and states
  float* logits = nullptr;     // [tables.logits_count, vocab]
};

/// The model on a device. Everything given stays; nothing is allocated and nothing waits, so that a
/// step may be recorded as a graph.
class CudaForward {
 public:
  struct Parts {
    const ModelConfig& config;
    const DeviceWeights& weights;
    const DeviceWork& work;
    kernels::cuda::LtGemm* library;  // null: our own GEMM
    bool half;                       // queries, keys and values are F16, not Bf16
    std::int64_t decode_parts;       // as WorkSizes
    std::int64_t head_rows;          // that one pass over the head takes
  };
  explicit CudaForward(const Parts& parts) : p_(parts) {}

  void queue(const ForwardStep& step) const;

 private:
  // Both leave a layer's state or keys behind; `unread`: and nothing else.
  void recurrent(const ForwardStep& step, const DeviceLayer& layer, std::int32_t index,
                 bool unread) const;
  template <class Element>
  void attention(const ForwardStep& step, const DeviceLayer& layer, std::int32_t index,
                 bool unread) const;
  void mlp(const ForwardStep& step, const DeviceLayer& layer) const;
  void head(const ForwardStep& step) const;

  // x += update (not for the first norm of a step), then its norm.
  void norm(const ForwardStep& step, const float* w, const float* update) const;
  template <class Out>
  void gemm(const ForwardStep& step, const DeviceMatrix& m, const Bf16* x, std::int64_t rows,
            Out* y) const;

  Parts p_;
};

}  // namespace cairn::model
