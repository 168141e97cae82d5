// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's inside; others include backend.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cublaslt.hpp"
#include "kernels/cuda/device.hpp"
#include "model/net/backend.hpp"
#include "model/net/cuda_arena.hpp"
#include "model/net/cuda_batch.hpp"
#include "model/net/cuda_forward.hpp"
#include "model/net/cuda_sampling.hpp"
#include "model/net/cuda_weights.hpp"
#include "model/net/cuda_work.hpp"

namespace cairn::model {

/// What tests set.
struct CudaInside {
  /// Ranges of 512 tokens that attention of a full batch works on at once, for each sequence.
  /// Longer contexts take their turns.
  std::int32_t usual_ranges = 64;
  std::function<std::unique_ptr<kernels::cuda::LtGemm>(int device, const std::string& record)>
      make_library = kernels::cuda::make_lt_gemm;
};

/// Everything of a step goes to one stream: tables up in one copy, launches, and what the caller
/// asks for down again. The host waits for the device in read_logits and sample alone, and when it
/// is two steps ahead.
class CudaBackend final : public Backend {
 public:
  /// The weights may go once it returns.
  CudaBackend(const Weights& weights, const CudaOptions& options, const CudaInside& inside = {});
  ~CudaBackend() override;

  const ModelConfig& config() const override { return config_; }
  MemoryLayout layout() const override;
  BackendInfo info() const override;
  StepLogits step(std::span<const StepSlice> slices) override;
  StepLogits read_logits() override;
  bool sample(std::span<const SampleRow> rows, std::int32_t vocab,
              std::vector<SampledRow>& out) override;
  std::shared_ptr<Arena> make_arena(std::size_t bytes) override;
  void use_arena(const std::shared_ptr<Arena>& arena) override;
  std::uint64_t free_bytes() const override;
  HostSlotCopy host_slot_copy() const override;
  void reset_state(std::byte* state) override;
  void copy_state(const std::byte* from, std::byte* to) override;
  void copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) override;

 private:
  // A decode step is filled up to one of few sizes, each recorded when it comes the second time:
  // the first loads the code of its kernels, which has no place in a recording.
  struct GraphSize {
    std::int32_t slices = 0;
    std::int32_t ranges = 0;
    auto operator<=>(const GraphSize&) const = default;
  };
  struct RecordedStep {
    StepTables tables;  // the same every time: a graph keeps its arguments
    kernels::cuda::Graph graph;
  };
  std::optional<GraphSize> graph_size() const;  // of the batch; none: its launches are queued
  void queue_as_graph(const GraphSize& size, const ForwardStep& step);

  void choose_library();
  void take_arena(std::shared_ptr<CudaArena> arena);
  void reserve_logits(std::int64_t rows);
  // Throws InvariantError unless a block or state of so many bytes can begin there.
  void check_place(const std::byte* place, std::size_t bytes) const;
  void queued() { last_work_->record(stream_); }

  ModelConfig config_;
  CudaOptions options_;
  kernels::cuda::DeviceDescription device_;
  BatchLimits limits_;
  WorkSizes sizes_;
  std::unique_ptr<Upload> upload_;  // until the constructor ends
  DeviceWeights weights_;
  DeviceWork work_;
  std::unique_ptr<kernels::cuda::LtGemm> library_;
  CudaForward forward_;
  StepBatch batch_;
  StagingAreas staging_;  // of the batch's tables

  std::int64_t logits_capacity_ = 0;  // rows
  kernels::cuda::DeviceBuffer logits_;
  kernels::cuda::PinnedBuffer host_logits_;
  std::int32_t logits_rows_ = 0;

  std::shared_ptr<CudaArena> arena_;
  std::shared_ptr<LastWork> last_work_;
  std::map<GraphSize, RecordedStep> graphs_;
  kernels::cuda::WorkStream stream_;
  CudaSampling sampling_;
};

}  // namespace cairn::model
