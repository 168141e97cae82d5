// SPDX-License-Identifier: Apache-2.0
// Rows sampled by the kernels and by the CPU's sampler.
#pragma once

#include <cstring>
#include <memory>
#include <random>

#include "kernels/cuda/sampling.hpp"
#include "model/net/sampling_batch.hpp"
#include "tests/simt/kernels.hpp"
#include "tests/support/sampling_cases.hpp"

namespace cairn::kernels::cuda::testing {

using model::SamplingParams;
using model::TokenHistory;
using model::testing::any_params;
using model::testing::history_of;
using model::testing::normal_logits;
using model::testing::odd_logits;

/// Scratch for calls of up to `rows` rows, zeroed once.
class Scratch {
 public:
  Scratch(std::int32_t rows, std::int32_t vocab, std::int32_t adjusted)
      : scratch_{nullptr, rows, vocab, adjusted}, memory_(scratch_.bytes()) {
    std::vector<std::byte> start = memory_.read();
    std::fill_n(start.begin(), scratch_.zero_bytes(), std::byte{0});
    memory_.write(start);
    scratch_.data = memory_.data();
  }
  const SampleScratch& get() const { return scratch_; }
  bool zeros_stand() const {
    const std::vector<std::byte> all = memory_.read();
    return std::all_of(all.begin(),
                       all.begin() + static_cast<std::ptrdiff_t>(scratch_.zero_bytes()),
                       [](std::byte b) { return b == std::byte{0}; });
  }

 private:
  SampleScratch scratch_;
  Buffer<std::byte> memory_;
};

struct SamplingCase {
  std::int32_t vocab = 0;
  std::int64_t ld = 0;
  Floats logits;  // [rows, ld]; what lies beyond vocab would be drawn, if looked at
  std::vector<SamplingParams> params;
  std::vector<TokenHistory> histories;

  explicit SamplingCase(std::int32_t ids) : vocab(ids), ld((ids + 7) / 4 * 4) {}

  void add(const Floats& row, const SamplingParams& p, TokenHistory history = {}) {
    logits.insert(logits.end(), row.begin(), row.end());
    logits.resize(logits.size() + at(ld - vocab), 1e30F);
    params.push_back(p);
    histories.push_back(std::move(history));
  }
  std::int32_t rows() const { return static_cast<std::int32_t>(params.size()); }
  const float* row(std::int32_t i) const { return logits.data() + i * ld; }

  model::SampleRow sample_row(std::int32_t i) const {
    return {i, &params[at(i)], &histories[at(i)], i % 3, static_cast<std::uint64_t>(7 * i)};
  }
  std::int32_t cpu_token(std::int32_t i) const {
    model::Sampler sampler(vocab);
    const model::SampleRow r = sample_row(i);
    return sampler.sample({row(i), at(vocab)}, *r.params, r.history, r.choice, r.index);
  }

  /// `which` rows in that order, in `slots` places.
  std::vector<Sampled> run(const std::vector<std::int32_t>& which, std::int32_t slots,
                           const Scratch& scratch) const {
    std::vector<model::SampleRow> sampled;
    for (const std::int32_t i : which) sampled.push_back(sample_row(i));
    std::vector<std::byte> packed(model::sampling_batch_bytes(sampled, slots));
    const model::SamplingBatch batch = model::pack_sampling(sampled, slots, vocab, packed);
    const Buffer<std::byte> device(packed);
    const Buffer<float> values(logits);
    Buffer<Sampled> out(at(slots));
    SampleArgs args;
    args.logits = values.data();
    args.ld = ld;
    args.vocab = vocab;
    args.rows = slots;
    args.params = reinterpret_cast<const SampleParams*>(device.data());
    args.entries = reinterpret_cast<const SampleEntry*>(args.params + slots);
    args.scratch = scratch.get();
    args.plan = batch.plan;
    args.out = out.data();
    sample(nullptr, args);
    REQUIRE(same_bits(values.read(), logits));
    return out.read();
  }
  std::vector<Sampled> run_all(const Scratch& scratch) const {
    std::vector<std::int32_t> which(params.size());
    for (std::size_t i = 0; i < which.size(); ++i) which[i] = static_cast<std::int32_t>(i);
    return run(which, rows(), scratch);
  }
  void require_cpu_tokens(const std::vector<Sampled>& got) const {
    for (std::int32_t i = 0; i < rows(); ++i) {
      const SamplingParams& p = params[at(i)];
      INFO("row " << i << " of " << vocab << " ids: temperature " << p.temperature << ", top_k "
                  << p.top_k << ", top_p " << p.top_p << ", min_p " << p.min_p);
      const float* x = row(i);
      REQUIRE(got[at(i)].token == cpu_token(i));
      REQUIRE((got[at(i)].finite != 0) ==
              std::all_of(x, x + vocab, [](float v) { return std::isfinite(v); }));
    }
  }
};

}  // namespace cairn::kernels::cuda::testing
