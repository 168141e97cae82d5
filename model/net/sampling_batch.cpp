// SPDX-License-Identifier: Apache-2.0
#include "model/net/sampling_batch.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"
#include "kernels/sampling.hpp"

namespace cairn::model {
namespace {

using kernels::cuda::SampleEntry;
using kernels::cuda::SampleParams;

// Fills the entries behind the parameters, in order.
class Entries {
 public:
  explicit Entries(std::span<SampleEntry> room) : room_(room) {}

  std::int32_t size() const { return static_cast<std::int32_t>(size_); }

  // Ascending by id, those of one id as they were given.
  void add_bias(std::span<const std::pair<std::int32_t, float>> biases) {
    const std::size_t begin = size_;
    for (const auto& [id, bias] : biases) {
      const auto entries = room_.subspan(begin, size_ - begin);
      const auto after =
          std::upper_bound(entries.begin(), entries.end(), id,
                           [](std::int32_t a, const SampleEntry& b) { return a < b.id; });
      const auto place = begin + static_cast<std::size_t>(after - entries.begin());
      add({id, std::bit_cast<std::uint32_t>(bias)});
      std::rotate(room_.begin() + static_cast<std::ptrdiff_t>(place),
                  room_.begin() + static_cast<std::ptrdiff_t>(size_ - 1),
                  room_.begin() + static_cast<std::ptrdiff_t>(size_));
    }
  }

  // Ids of the prompt alone matter to the repetition penalty only.
  void add_seen(const TokenHistory& history, bool of_prompt) {
    for (const auto& [id, generated] : history.seen()) {
      if (of_prompt || generated > 0) add({id, static_cast<std::uint32_t>(generated)});
    }
  }

 private:
  void add(const SampleEntry& entry) {
    check(size_ < room_.size(), "pack_sampling: too little memory");
    room_[size_++] = entry;
  }

  std::span<SampleEntry> room_;
  std::size_t size_ = 0;
};

SampleParams pack_row(const SampleRow& row, std::int32_t vocab, Entries& entries) {
  const SamplingParams& p = *row.params;
  SampleParams out;
  out.row = row.row;
  out.inverse_temperature = p.temperature > 0 ? 1.0F / p.temperature : 0.0F;
  out.top_k = p.top_k > 0 && p.top_k < vocab ? p.top_k : 0;
  out.nucleus = p.top_p < 1 ? 1 : 0;
  out.top_p = out.nucleus != 0 ? kernels::share_fraction(p.top_p) : 0;
  out.min_p = p.min_p;
  out.seed = p.seed;
  out.index = row.index;
  out.choice = row.choice;
  out.bias_begin = entries.size();
  entries.add_bias(p.logit_bias);
  out.bias_end = out.seen_begin = entries.size();
  if (row.history != nullptr && has_penalty(p)) {
    entries.add_seen(*row.history, p.repetition_penalty != 1);
  }
  out.seen_end = entries.size();
  out.repetition = p.repetition_penalty;
  out.frequency = p.frequency_penalty;
  out.presence = p.presence_penalty;
  return out;
}

}  // namespace

std::size_t sampling_batch_bytes(std::span<const SampleRow> rows, std::int32_t slots) {
  std::size_t entries = 0;
  for (const SampleRow& row : rows) {
    entries += row.params->logit_bias.size();
    if (row.history != nullptr && has_penalty(*row.params)) entries += row.history->seen().size();
  }
  return static_cast<std::size_t>(slots) * sizeof(SampleParams) + entries * sizeof(SampleEntry);
}

SamplingBatch pack_sampling(std::span<const SampleRow> rows, std::int32_t slots, std::int32_t vocab,
                            std::span<std::byte> to) {
  const auto params_bytes = static_cast<std::size_t>(slots) * sizeof(SampleParams);
  check(std::ssize(rows) <= slots, "pack_sampling: more rows than slots");
  check(to.size() >= params_bytes, "pack_sampling: too little memory");
  const std::span params(reinterpret_cast<SampleParams*>(to.data()),
                         static_cast<std::size_t>(slots));
  const std::span<std::byte> rest = to.subspan(params_bytes);
  Entries entries({reinterpret_cast<SampleEntry*>(rest.data()), rest.size() / sizeof(SampleEntry)});
  SamplingBatch batch;
  std::fill(params.begin(), params.end(), SampleParams{});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SampleParams& p = params[i];
    p = pack_row(rows[i], vocab, entries);
    const bool draws = p.inverse_temperature > 0;
    if (p.bias_begin < p.seen_end) p.adjusted = batch.plan.adjusted++;
    batch.plan.draws = batch.plan.draws || draws;
    batch.plan.cuts = batch.plan.cuts || (draws && (p.top_k > 0 || p.nucleus != 0));
  }
  batch.bytes = params_bytes + static_cast<std::size_t>(entries.size()) * sizeof(SampleEntry);
  return batch;
}

}  // namespace cairn::model
