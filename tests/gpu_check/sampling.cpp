// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/sampling.hpp"

#include "model/net/sampling_batch.hpp"
#include "tests/gpu_check/arrays.hpp"
#include "tests/gpu_check/bounds.hpp"
#include "tests/gpu_check/shapes.hpp"

namespace cairn::gpu_check {
namespace {

using namespace kernels::cuda;  // NOLINT

/// One way of sampling `rows` rows, each with the same parameters.
void measure(KernelClock& clock, std::int32_t rows, const std::string& kind,
             const model::SamplingParams& params) {
  const model::ModelConfig& c = measured_model();
  std::vector<model::SampleRow> wanted;
  for (std::int32_t row = 0; row < rows; ++row) wanted.push_back({row, &params, nullptr, 0, 0});
  std::vector<std::byte> packed(model::sampling_batch_bytes(wanted, rows));
  const model::SamplingBatch batch = model::pack_sampling(wanted, rows, c.sampled_vocab, packed);
  const Array<std::byte> on_device(clock.stream(), packed);
  const Array<float> logits(clock.stream(), std::int64_t{rows} * c.vocab_size);
  const Space<Sampled> out(rows);
  SampleArgs args;
  args.logits = logits.get();
  args.ld = c.vocab_size;
  args.vocab = c.sampled_vocab;
  args.rows = rows;
  args.params = reinterpret_cast<const SampleParams*>(on_device.get());
  args.entries = reinterpret_cast<const SampleEntry*>(args.params + rows);
  args.scratch.rows = rows;
  args.scratch.vocab = c.sampled_vocab;
  args.plan = batch.plan;
  args.out = out.get();
  const Space<std::byte> scratch(static_cast<std::int64_t>(args.scratch.bytes()));
  args.scratch.data = scratch.get();
  clock.stream().zero(scratch.get(), args.scratch.zero_bytes());
  clock.measure("sample " + kind + ", " + std::to_string(rows) + (rows == 1 ? " row" : " rows"),
                {4.0 * rows * c.sampled_vocab, 0, 0}, 10,
                [&](int) { sample(clock.stream().get(), args); });
}

}  // namespace

void measure_sampling(KernelClock& clock) {
  for (const std::int32_t rows : {1, kDryRun ? 2 : 32}) {
    model::SamplingParams params;
    params.temperature = 0;
    measure(clock, rows, "greedy", params);
    params.temperature = 0.7F;
    measure(clock, rows, "by temperature", params);
    params.top_k = 20;
    params.top_p = 0.9F;
    measure(clock, rows, "by top-k and top-p", params);
  }
}

}  // namespace cairn::gpu_check
