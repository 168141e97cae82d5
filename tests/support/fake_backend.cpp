// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_backend.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.hpp"
#include "tests/support/host_arena.hpp"

namespace cairn::testing {
namespace {

constexpr std::int32_t kLayers = 2;  // that hold KV
constexpr std::size_t kSlotBytes = kLayers * sizeof(std::uint64_t);

// A running state as it lies in memory.
struct State {
  std::uint64_t hash = 0;
  std::int64_t tokens = 0;
  std::uint64_t seal = 0;  // of the two; what was never a state is found out
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {  // splitmix64 finisher
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0xD1B54A32D192ED03ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t seal_of(const State& s) {
  return mix(s.hash ^ 0x5EA1ULL, static_cast<std::uint64_t>(s.tokens));
}

State load(const std::byte* from) {
  State s;
  std::memcpy(&s, from, sizeof s);
  check(s.seal == seal_of(s), "fake backend: memory that is no state was used as one");
  return s;
}

void store(State s, std::byte* to) {
  s.seal = seal_of(s);
  std::memcpy(to, &s, sizeof s);
}

const std::byte* slot(const model::StepSlice& slice, std::int32_t position) {
  const std::byte* block =
      slice.kv_blocks[static_cast<std::size_t>(position / model::kBlockTokens)];
  return block + static_cast<std::size_t>(position % model::kBlockTokens) * kSlotBytes;
}

}  // namespace

FakeBackend::FakeBackend(FakeOptions options) : options_(options) {
  config_.vocab_size = options.vocab_size;
  config_.sampled_vocab = options.sampled_vocab;
  config_.hidden_size = 8;
  config_.num_layers = 4;
  config_.max_position_embeddings = 1 << 20;
  config_.layers = {model::LayerKind::linear_attention, model::LayerKind::full_attention,
                    model::LayerKind::linear_attention, model::LayerKind::full_attention};
}

model::MemoryLayout FakeBackend::layout() const {
  return {.kv_block_bytes = model::kBlockTokens * kSlotBytes, .state_bytes = 64};
}

model::BackendInfo FakeBackend::info() const {
  return {.device = "fake", .isa = "", .weights = "hash", .kv = "hash", .threads = 1};
}

void FakeBackend::reset_state(std::byte* state) { store({}, state); }

void FakeBackend::copy_state(const std::byte* from, std::byte* to) {
  store(load(from), to);
  ++states_copied_;
}

void FakeBackend::copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) {
  host_slot_copy()(from, to, tokens);
}

model::Backend::HostSlotCopy FakeBackend::host_slot_copy() const {
  return [block_bytes = layout().kv_block_bytes](const std::byte* from, std::byte* to,
                                                 std::int32_t tokens) {
    check(tokens > 0 && tokens <= model::kBlockTokens, "fake backend: a copy of no slots");
    const std::size_t bytes = static_cast<std::size_t>(tokens) * kSlotBytes;
    std::memcpy(to, from, bytes);
    std::memset(to + bytes, 0xEE, block_bytes - bytes);
  };
}

model::StepLogits FakeBackend::host_logits() const {
  const auto vocab = static_cast<std::size_t>(options_.vocab_size);
  return {logits_.data(), static_cast<std::int32_t>(logits_.size() / vocab), options_.vocab_size};
}

model::StepLogits FakeBackend::read_logits() {
  ++logits_reads_;
  return host_logits();
}

bool FakeBackend::sample(std::span<const model::SampleRow> rows, std::int32_t vocab,
                         std::vector<model::SampledRow>& out) {
  if (!options_.samples_on_device) return false;
  model::Sampler sampler(vocab);
  out.clear();
  for (const model::SampleRow& row : rows) {
    check(row.row < host_logits().rows, "fake backend: a row that the step did not have");
    const auto logits = host_logits().row(row.row).first(static_cast<std::size_t>(vocab));
    model::SampledRow& sampled = out.emplace_back();
    for (const float x : logits) sampled.finite = sampled.finite && std::isfinite(x);
    if (!sampled.finite) continue;
    sampled.token = sampler.sample(logits, *row.params, row.history, row.choice, row.index);
  }
  rows_sampled_ += static_cast<std::int64_t>(rows.size());
  return true;
}

std::shared_ptr<model::Arena> FakeBackend::make_arena(std::size_t bytes) {
  if (options_.arena_bytes_free == 0) return nullptr;
  check(bytes <= options_.arena_bytes_free, "fake backend: a larger arena than there is room for");
  arena_ = std::make_shared<HostArena>(bytes);
  return arena_;
}

void FakeBackend::check_place(const std::byte* p) const {
  if (arena_ == nullptr) return;
  const std::ptrdiff_t at = p - arena_->data();
  check(at >= 0 && at < static_cast<std::ptrdiff_t>(arena_->size()) &&
            at % static_cast<std::ptrdiff_t>(HostArena::kAlignment) == 0,
        "fake backend: memory that is none of the arena's");
}

void FakeBackend::check_places(const model::StepSlice& slice) const {
  check_place(slice.state);
  for (const std::byte* block : slice.kv_blocks) check_place(block);
  for (const model::SavePoint& save : slice.saves) check_place(save.state);
}

std::uint64_t FakeBackend::read_kv(const model::StepSlice& slice, std::int32_t position) const {
  std::uint64_t hash = 0;
  for (std::int32_t p = 0; p <= position; ++p) {
    std::uint64_t values[kLayers];
    std::memcpy(values, slot(slice, p), sizeof values);
    hash = (hash ^ values[0]) * 0x100000001B3ULL + values[1];
  }
  return hash;
}

void FakeBackend::run_token(const model::StepSlice& slice, std::int32_t i) {
  const std::int32_t position = slice.position + i;
  const std::int32_t token = slice.tokens[static_cast<std::size_t>(i)];
  check(token >= 0 && token < options_.vocab_size, "fake backend: a token outside the vocabulary");
  State s = load(slice.state);
  check(s.tokens == position, "fake backend: the state of " + std::to_string(s.tokens) +
                                  " tokens used at position " + std::to_string(position));
  std::uint64_t values[kLayers];
  for (int layer = 0; layer < kLayers; ++layer) {
    values[layer] = mix(mix(s.hash, static_cast<std::uint64_t>(token)),
                        static_cast<std::uint64_t>(position * kLayers + layer));
  }
  std::memcpy(const_cast<std::byte*>(slot(slice, position)), values, sizeof values);
  const bool reads = options_.attention_in_state && options_.attention_in_logits;
  s.hash =
      mix(mix(s.hash, static_cast<std::uint64_t>(token)), reads ? read_kv(slice, position) : 0);
  ++s.tokens;
  store(s, slice.state);
}

void FakeBackend::write_logits(const model::StepSlice& slice, std::int32_t i) {
  const std::uint64_t kv = options_.attention_in_logits ? read_kv(slice, slice.position + i) : 0;
  const std::uint64_t row = mix(load(slice.state).hash, kv);
  const bool broken = slice.tokens[static_cast<std::size_t>(i)] == options_.nan_token;
  for (std::int32_t v = 0; v < options_.vocab_size; ++v) {
    const std::uint64_t bits = mix(row, static_cast<std::uint64_t>(v)) >> 40;
    const float value = v < options_.sampled_vocab
                            ? static_cast<float>(bits) / static_cast<float>(1 << 21) - 4
                            : 1e6F;
    logits_.push_back(broken ? std::numeric_limits<float>::quiet_NaN() : value);
  }
}

model::StepLogits FakeBackend::step(std::span<const model::StepSlice> slices) {
  if (step_count_++ == options_.fail_at_step) throw DeviceError("fake backend: told to fail");
  check(!slices.empty(), "fake backend: an empty step");
  logits_.clear();
  FakeStep seen;
  for (const model::StepSlice& slice : slices) {
    const auto rows = static_cast<std::int32_t>(slice.tokens.size());
    check(rows > 0, "fake backend: an empty slice");
    check(static_cast<std::int64_t>(slice.kv_blocks.size()) * model::kBlockTokens >=
              slice.position + rows,
          "fake backend: a slice without blocks for its tokens");
    check_places(slice);
    std::size_t save = 0;
    for (std::int32_t i = 0; i < rows; ++i) {
      run_token(slice, i);
      for (; save < slice.saves.size() && slice.saves[save].position == slice.position + i + 1;
           ++save) {
        store(load(slice.state), slice.saves[save].state);
      }
      if (slice.logits_from >= 0 && i >= slice.logits_from) write_logits(slice, i);
    }
    check(save == slice.saves.size(), "fake backend: a save outside its slice");
    seen.slices.push_back({slice.position, rows, static_cast<std::int32_t>(slice.saves.size()),
                           slice.logits_from >= 0});
    seen.rows += rows;
  }
  if (!forget_) steps_.push_back(std::move(seen));
  model::StepLogits logits = host_logits();
  if (options_.samples_on_device) logits.data = nullptr;
  return logits;
}

}  // namespace cairn::testing
