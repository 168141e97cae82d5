// SPDX-License-Identifier: Apache-2.0
#include "bench/accuracy/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/cpu/packed.hpp"

namespace cairn::bench {
namespace {

using kernels::HugeBuffer;

// Logits of every token of a prompt, [tokens, vocab].
std::vector<float> logits_of(model::Backend& backend, std::span<const std::int32_t> tokens) {
  const model::MemoryLayout layout = backend.layout();
  const auto blocks_needed =
      (tokens.size() + model::kBlockTokens - 1) / static_cast<std::size_t>(model::kBlockTokens);
  HugeBuffer kv(blocks_needed * layout.kv_block_bytes);
  HugeBuffer state(layout.state_bytes);
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < blocks_needed; ++i) {
    blocks.push_back(kv.data() + i * layout.kv_block_bytes);
  }
  backend.reset_state(state.data());
  model::StepSlice slice;
  slice.tokens = tokens;
  slice.kv_blocks = blocks;
  slice.state = state.data();
  slice.logits_from = 0;
  backend.step({&slice, 1});
  const model::StepLogits got = backend.read_logits();
  return {got.data,
          got.data + static_cast<std::size_t>(got.rows) * static_cast<std::size_t>(got.vocab)};
}

// -ln of the share that softmax gives an id.
double surprise(std::span<const float> row, std::ptrdiff_t id) {
  const double most = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(x - most);
  return std::log(sum) + most - row[static_cast<std::size_t>(id)];
}

std::ptrdiff_t likeliest(std::span<const float> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

struct Sums {
  double surprise = 0;           // nats
  std::int64_t predictions = 0;  // rows whose next token is in the window
  std::int64_t rows = 0, same = 0;
  std::int64_t sure = 0, sure_same = 0;
  double difference = 0, spread = 0;  // squares

  void add(std::span<const float> row, std::span<const float> reference) {
    const std::ptrdiff_t first = likeliest(reference);
    const bool agrees = likeliest(row) == first;
    ++rows;
    same += agrees ? 1 : 0;
    if (bench::surprise(reference, first) <= std::log(2.0)) {
      ++sure;
      sure_same += agrees ? 1 : 0;
    }
    double mean = 0;
    for (const float x : reference) mean += x;
    mean /= static_cast<double>(reference.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double off = static_cast<double>(row[i]) - reference[i];
      const double out = reference[i] - mean;
      difference += off * off;
      spread += out * out;
    }
  }
};

}  // namespace

std::unique_ptr<model::Backend> make_backend(std::shared_ptr<const model::Weights> weights,
                                             model::KvType kv, kernels::Activations activations) {
  model::CpuOptions options;
  options.activations = activations;
  options.kv = kv;
  return model::make_cpu_backend(std::move(weights), options);
}

std::vector<Accuracy> measure_accuracy(std::span<const Candidate> candidates,
                                       std::span<const std::int32_t> tokens, std::int32_t window) {
  std::vector<Sums> sums(candidates.size());
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(window)) {
    const auto part =
        tokens.subspan(begin, std::min(static_cast<std::size_t>(window), tokens.size() - begin));
    const auto vocab = static_cast<std::size_t>(candidates[0].backend->config().vocab_size);
    std::vector<float> reference;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const std::vector<float> logits = logits_of(*candidates[c].backend, part);
      if (c == 0) reference = logits;
      for (std::size_t r = 0; r < part.size(); ++r) {
        const auto row = std::span(logits).subspan(r * vocab, vocab);
        sums[c].add(row, std::span(reference).subspan(r * vocab, vocab));
        if (r + 1 == part.size()) continue;
        sums[c].surprise += surprise(row, static_cast<std::ptrdiff_t>(part[r + 1]));
        ++sums[c].predictions;
      }
    }
  }
  std::vector<Accuracy> out;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Sums& s = sums[c];
    out.push_back(
        {candidates[c].name,
         std::exp(s.surprise / static_cast<double>(std::max<std::int64_t>(1, s.predictions))),
         share(s.same, s.rows), share(s.sure_same, s.sure), std::sqrt(s.difference / s.spread)});
  }
  return out;
}

std::string table_of(std::span<const Accuracy> list, std::size_t base) {
  std::string out =
      "| weights | perplexity | | same likeliest token | where it has half of all | error of "
      "logits "
      "|\n|--|--|--|--|--|--|\n";
  for (const Accuracy& a : list) {
    char line[200];
    std::snprintf(line, sizeof line, "| %s | %.3f | %+.2f %% | %.2f %% | %.2f %% | %.2f %% |\n",
                  a.name.c_str(), a.perplexity, 100 * (a.perplexity / list[base].perplexity - 1),
                  100 * a.agreement, 100 * a.sure_agreement, 100 * a.logit_error);
    out += line;
  }
  return out;
}

}  // namespace cairn::bench
