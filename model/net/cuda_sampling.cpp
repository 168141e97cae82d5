// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_sampling.hpp"

#include <algorithm>
#include <bit>

#include "model/net/sampling_batch.hpp"

namespace cairn::model {
namespace {

namespace cuda = kernels::cuda;

// Parameters and some lists; a row that saw 8,000 different ids takes as much for itself.
constexpr std::size_t kFirstTableBytes = std::size_t{64} << 10;

// Any row may have penalties.
cuda::SampleScratch scratch_of(std::int32_t rows, std::int32_t vocab) {
  return {nullptr, rows, vocab, rows};
}

}  // namespace

std::size_t CudaSampling::bytes(std::int32_t rows, std::int32_t vocab) {
  return scratch_of(rows, vocab).bytes() + kFirstTableBytes +
         static_cast<std::size_t>(rows) * sizeof(cuda::Sampled);
}

CudaSampling::CudaSampling(int device, std::int32_t rows, std::int32_t vocab,
                           cuda::WorkStream& stream)
    : device_(device),
      stream_(stream),
      scratch_(scratch_of(rows, vocab)),
      scratch_memory_(device, scratch_.bytes(), "sampling"),
      sampled_(device, static_cast<std::size_t>(rows) * sizeof(cuda::Sampled), "sampling"),
      host_sampled_(device, sampled_.size(), "sampled tokens") {
  scratch_.data = scratch_memory_.data();
  stream_.zero(scratch_.data, scratch_.zero_bytes());
  reserve(kFirstTableBytes);
}

void CudaSampling::reserve(std::size_t bytes) {
  if (bytes <= tables_.size()) return;
  const std::size_t size = std::bit_ceil(bytes);
  tables_ = {};  // first, so that old and new never stand side by side
  tables_ = cuda::DeviceBuffer(device_, size, "sampling");
  host_tables_ = {};
  host_tables_ = cuda::PinnedBuffer(device_, size, "sampling");
}

void CudaSampling::sample(std::span<const SampleRow> rows, std::int32_t vocab, const float* logits,
                          std::int64_t ld, std::vector<SampledRow>& out) {
  if (rows.empty()) return stream_.finish();
  const auto most = static_cast<std::size_t>(scratch_.rows);
  for (std::size_t done = 0; done < rows.size(); done += most) {
    sample_some(rows.subspan(done, std::min(most, rows.size() - done)), vocab, logits, ld, out);
  }
}

void CudaSampling::sample_some(std::span<const SampleRow> rows, std::int32_t vocab,
                               const float* logits, std::int64_t ld, std::vector<SampledRow>& out) {
  const auto count = static_cast<std::int32_t>(rows.size());
  reserve(sampling_batch_bytes(rows, count));
  const SamplingBatch batch =
      pack_sampling(rows, count, vocab, {host_tables_.data(), host_tables_.size()});
  stream_.copy_to_device(tables_.data(), host_tables_.data(), batch.bytes);
  cuda::SampleArgs args;
  args.logits = logits;
  args.ld = ld;
  args.vocab = vocab;
  args.rows = count;
  args.params = tables_.as<cuda::SampleParams>();
  args.entries = reinterpret_cast<const cuda::SampleEntry*>(args.params + count);
  args.scratch = scratch_;
  args.plan = batch.plan;
  args.out = sampled_.as<cuda::Sampled>();
  cuda::sample(stream_.get(), args);
  stream_.copy_to_host(host_sampled_.data(), sampled_.data(), rows.size() * sizeof(cuda::Sampled));
  stream_.finish();
  const auto* const sampled = host_sampled_.as<cuda::Sampled>();
  for (std::int32_t i = 0; i < count; ++i) {
    out.push_back({sampled[i].token, sampled[i].finite != 0});
  }
}

}  // namespace cairn::model
