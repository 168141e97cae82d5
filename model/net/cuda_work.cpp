// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_work.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cairn::model {
namespace {

namespace cuda = kernels::cuda;

/// Hands out pieces of memory, or counts them when it begins at null.
class Carver {
 public:
  explicit Carver(std::byte* memory) : at_(reinterpret_cast<std::uintptr_t>(memory)) {}
  template <class T>
  void take(T*& place, std::int64_t count) {
    place = reinterpret_cast<T*>(at_);  // NOLINT: of an address that is counted on from null
    at_ += in_device_units(static_cast<std::size_t>(count) * sizeof(T));
  }
  std::uintptr_t end() const { return at_; }

 private:
  std::uintptr_t at_;
};

cuda::GemmWorkspaceSize largest(const cuda::GemmWorkspaceSize& a,
                                const cuda::GemmWorkspaceSize& b) {
  return {std::max(a.sums, b.sums), std::max(a.arrived, b.arrived)};
}

// A plan is a bucket's, and needs most for as many rows as the bucket has.
cuda::GemmWorkspaceSize gemm_workspace_of(const kernels::PackedMatrix& m, std::int64_t rows) {
  cuda::GemmWorkspaceSize size;
  for (std::int64_t bucket = 1; bucket < rows + 1;) {
    const std::int64_t most = std::min(cuda::gemm_bucket(bucket), rows);
    size = largest(size,
                   cuda::gemm_workspace(cuda::gemm_plan(most, m.n(), m.k()), most, m.n(), m.k()));
    bucket = most + 1;
  }
  return size;
}

cuda::GemmWorkspaceSize gemm_workspace_of(const Weights& weights, std::int64_t rows) {
  cuda::GemmWorkspaceSize size = gemm_workspace_of(weights.head, rows);
  for (const LayerWeights& layer : weights.layers) {
    for (const auto* m : {&layer.in, &layer.out, &layer.gate_up, &layer.down}) {
      size = largest(size, gemm_workspace_of(*m, rows));
    }
  }
  return size;
}

std::int64_t attention_floats(const ModelConfig& c, std::int64_t parts) {
  cuda::AttentionDecodeArgs<Bf16, Bf16> args;
  args.kv.kv_heads = c.num_kv_heads;
  args.kv.head_dim = c.head_dim;
  args.group = c.num_heads / c.num_kv_heads;
  args.tile_count = parts;
  return cuda::attention_scratch_floats(args);
}

constexpr std::int32_t kSlotCopies = 2 * (kBlockTokens + 1);

}  // namespace

std::size_t DeviceWork::carve(const Weights& weights, const WorkSizes& sizes, std::byte* memory) {
  const ModelConfig& c = weights.config;
  const std::int64_t rows = sizes.rows;
  const std::int64_t heads = std::int64_t{c.num_heads} * c.head_dim;
  const std::int64_t angles = std::int64_t{sizes.batch.context} * c.rotary_dim / 2;
  const cuda::GemmWorkspaceSize workspace = gemm_workspace_of(weights, rows);
  Carver carver(memory);
  carver.take(x, rows * c.hidden_size);
  carver.take(update, rows * c.hidden_size);
  carver.take(normed, rows * c.hidden_size);
  carver.take(wide, rows * sizes.wide);
  carver.take(qkv, rows * c.conv_channels());
  carver.take(gates, rows * c.linear_value_heads * 2);
  carver.take(recurred, rows * c.value_channels());
  carver.take(queries, rows * heads * static_cast<std::int64_t>(sizeof(Bf16)));
  carver.take(mixed, rows * std::max<std::int64_t>(heads, c.value_channels()));
  carver.take(inner, rows * c.intermediate_size);
  carver.take(attention, attention_floats(c, sizes.decode_parts));
  carver.take(gemm.sums, workspace.sums);
  carver.take(gemm.arrived, workspace.arrived);
  carver.take(tables, static_cast<std::int64_t>(StepBatch::most_bytes(sizes.batch)));
  carver.take(cos, angles);
  carver.take(sin, angles);
  carver.take(slot_copies, kSlotCopies);
  arrived_bytes_ = static_cast<std::size_t>(workspace.arrived) * sizeof(std::int32_t);
  return carver.end() - reinterpret_cast<std::uintptr_t>(memory);
}

std::size_t DeviceWork::bytes(const Weights& weights, const WorkSizes& sizes) {
  DeviceWork places;
  return places.carve(weights, sizes, nullptr);
}

DeviceWork::DeviceWork(const Weights& weights, const WorkSizes& sizes, int device, Upload& upload)
    : memory_(device, bytes(weights, sizes), "what a step works in") {
  carve(weights, sizes, memory_.data());
  fill(weights.config, sizes, upload);
}

void DeviceWork::fill(const ModelConfig& config, const WorkSizes& sizes, Upload& upload) {
  upload.stream().zero(reinterpret_cast<std::byte*>(gemm.arrived), arrived_bytes_);

  std::vector<cuda::KvSlotCopy> copies;
  for (const std::int32_t from : {0, 1}) {
    for (std::int32_t tokens = 0; tokens <= kBlockTokens; ++tokens) {
      copies.push_back({from, 1 - from, tokens});
    }
  }
  const auto on_device = [&](const void* view) {
    return memory_.data() + (static_cast<const std::byte*>(view) - memory_.data());
  };
  upload.send_bytes(on_device(slot_copies), copies.data(),
                    copies.size() * sizeof(cuda::KvSlotCopy));

  const std::int64_t pairs = config.rotary_dim / 2;
  const std::vector<double> frequency = config.rope_frequencies();
  const auto most = static_cast<std::int64_t>(upload.area_bytes() / sizeof(float)) / pairs;
  const auto send = [&](const float* table, double (*of)(double)) {
    for (std::int64_t begin = 0; begin < sizes.batch.context; begin += most) {
      const std::int64_t count = std::min<std::int64_t>(most, sizes.batch.context - begin);
      upload.send(on_device(table + begin * pairs),
                  static_cast<std::size_t>(count * pairs) * sizeof(float), [&](std::byte* area) {
                    auto* const values = reinterpret_cast<float*>(area);
                    upload.pool().run(count, [&](std::int64_t p) {
                      // Angles in fp64: at position 262,143 an fp32 product is off by 0.01 radians.
                      for (std::int64_t i = 0; i < pairs; ++i) {
                        values[p * pairs + i] =
                            static_cast<float>(of(static_cast<double>(begin + p) *
                                                  frequency[static_cast<std::size_t>(i)]));
                      }
                    });
                  });
    }
  };
  send(cos, [](double angle) { return std::cos(angle); });
  send(sin, [](double angle) { return std::sin(angle); });
}

}  // namespace cairn::model
