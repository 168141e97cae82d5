// SPDX-License-Identifier: Apache-2.0
#include "model/net/cpu_backend.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "model/net/host_limits.hpp"
#include "model/net/memory_layout.hpp"
#include "model/net/step_check.hpp"
#include "model/net/weights.hpp"

namespace cairn::model {
namespace {

// Rows that pass through the layers together: enough to make the matrix kernels compute-bound, few
// enough that a tile's intermediate values stay in the last-level cache.
constexpr std::int32_t kTileRows = 256;

std::int64_t padded(std::int64_t n) {
  const std::int64_t aligned = (n + 15) / 16 * 16;
  return aligned % 1024 == 0 ? aligned + 16 : aligned;
}

std::int64_t widest_projection(const Weights& w) {
  std::int64_t n = 0;
  for (const LayerWeights& layer : w.layers) {
    n = std::max({n, layer.in.n() + layer.gates.n(), layer.gate_up.n()});
  }
  return n;
}

// Values of the longest row that a matrix multiplies.
std::int64_t deepest_input(const ModelConfig& c) {
  return std::max(
      {c.hidden_size, c.intermediate_size, c.num_heads * c.head_dim, c.value_channels()});
}

kernels::HugeBuffer rows_of(std::int64_t rows, std::int64_t ld) {
  return kernels::HugeBuffer(static_cast<std::size_t>(rows * ld) * sizeof(float));
}

float* floats(kernels::HugeBuffer& b) { return reinterpret_cast<float*>(b.data()); }

}  // namespace

ScratchSlots::ScratchSlots(int slots, std::int64_t elements)
    : stride_bytes_((static_cast<std::size_t>(elements) * sizeof(float) + 63) / 64 * 64),
      memory_(stride_bytes_ * static_cast<std::size_t>(slots)),
      taken_(static_cast<std::size_t>(slots)) {}

ScratchSlots::Lease ScratchSlots::take() {
  for (std::size_t i = 0;; i = (i + 1) % taken_.size()) {
    if (!taken_[i].test_and_set(std::memory_order_acquire)) {
      return {reinterpret_cast<float*>(memory_.data() + i * stride_bytes_), taken_[i]};
    }
  }
}

CpuBackend::CpuBackend(std::shared_ptr<const Weights> weights, const CpuOptions& options)
    : weights_(std::move(weights)),
      ops_(ops_for(options.isa)),
      pool_(options.threads > 0 ? options.threads : default_threads()),
      kv_{options.kv == KvType::bf16 ? kernels::KvType::bf16 : kernels::KvType::f32,
          weights_->config.num_kv_heads, weights_->config.head_dim},
      activations_(options.activations),
      max_step_tokens_(options.max_step_tokens),
      state_layer_(cpu_state_layer(weights_->config)),
      ld_hidden_(padded(weights_->config.hidden_size)),
      ld_wide_(padded(widest_projection(*weights_))),
      ld_mixed_(padded(std::max(weights_->config.num_heads * weights_->config.head_dim,
                                weights_->config.value_channels()))),
      attention_scratch_(
          pool_.threads(),
          kernels::attention_scratch(kAttentionRows, weights_->config.num_heads / kv_.kv_heads,
                                     weights_->config.head_dim)) {
  static_assert(kBlockTokens == kernels::kKvBlockTokens);
  check(max_step_tokens_ >= 1, "max_step_tokens is below 1");
  const ModelConfig& c = weights_->config;
  const std::int32_t rows = std::min(max_step_tokens_, kTileRows);
  const std::int32_t pairs = c.rotary_dim / 2;
  const auto take = [&](kernels::HugeBuffer& memory, std::int64_t ld) {
    memory = rows_of(rows, ld);
    return floats(memory);
  };
  x_ = take(x_memory_, ld_hidden_);
  normed_ = take(normed_memory_, ld_hidden_);
  output_ = take(output_memory_, ld_hidden_);
  wide_ = take(wide_memory_, ld_wide_);
  query_ = take(query_memory_, ld_mixed_);
  mixed_ = take(mixed_memory_, ld_mixed_);
  decay_ = take(decay_memory_, c.linear_value_heads);
  beta_ = take(beta_memory_, c.linear_value_heads);
  cos_ = take(cos_memory_, pairs);
  sin_ = take(sin_memory_, pairs);
  rope_frequency_ = c.rope_frequencies();
  if (weights_->format != kernels::WeightFormat::bf16) {
    rounded_memory_ =
        kernels::HugeBuffer(kernels::QuantRows::bytes(rows, deepest_input(c), weights_->format));
  } else if (activations_ == kernels::Activations::bf16) {
    rounded_memory_ = kernels::HugeBuffer(kernels::RoundedRows::bytes(rows, deepest_input(c)));
  }
}

MemoryLayout CpuBackend::layout() const { return cpu_memory_layout(config(), kv_type()); }

BackendInfo CpuBackend::info() const {
  return {"cpu",
          kernels::to_string(ops_.isa),
          format_name(weights_->format),
          kv_type() == KvType::bf16 ? "bf16" : "f32",
          pool_.threads(),
          kernels::to_string(activations_)};
}

void CpuBackend::reset_state(std::byte* state) {
  split(static_cast<std::int64_t>(layout().state_bytes), kernels::kCopyGrain,
        [&](std::int64_t begin, std::int64_t end) {
          std::memset(state + begin, 0, static_cast<std::size_t>(end - begin));
        });
}

void CpuBackend::copy_state(const std::byte* from, std::byte* to) {
  split(static_cast<std::int64_t>(layout().state_bytes), kernels::kCopyGrain,
        [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        });
}

void CpuBackend::copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) {
  copy_cpu_kv_slots(config(), kv_type(), from, to, tokens);
}

Backend::HostSlotCopy CpuBackend::host_slot_copy() const {
  return [weights = weights_, kv = kv_type()](const std::byte* from, std::byte* to,
                                              std::int32_t tokens) {
    copy_cpu_kv_slots(weights->config, kv, from, to, tokens);
  };
}

StepLogits CpuBackend::step(std::span<const StepSlice> slices) {
  check_step(slices, {.vocab = config().vocab_size, .rows = max_step_tokens_});
  const kernels::FloatEnvironment environment;
  slices_ = slices;
  logits_rows_ = 0;
  const std::int64_t wanted = wanted_logits(slices);
  reserve_logits(wanted);
  const std::int32_t tile_rows = std::min(max_step_tokens_, kTileRows);
  Tile tile;
  const auto flush = [&] {
    if (tile.rows > 0) run_tile(tile);
    tile = {};
  };
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const StepSlice& s = slices[i];
    const auto n = static_cast<std::int32_t>(s.tokens.size());
    for (std::int32_t at = 0; at < n;) {
      const std::int32_t rows = std::min(n - at, tile_rows - tile.rows);
      const std::int32_t read_from =
          s.logits_from < 0 ? rows : std::clamp(s.logits_from - at, 0, rows);
      tile.parts.push_back(
          {static_cast<std::int32_t>(i), tile.rows, rows, at, s.position + at, read_from});
      tile.rows += rows;
      at += rows;
      if (tile.rows == tile_rows) flush();
    }
  }
  flush();
  check(logits_rows_ == wanted, "step: rows of logits went missing");
  return read_logits();
}

StepLogits CpuBackend::read_logits() {
  return {floats(logits_), static_cast<std::int32_t>(logits_rows_), config().vocab_size};
}

void CpuBackend::begin_tile(const Tile& tile) {
  const std::int64_t pairs = config().rotary_dim / 2;
  split(static_cast<std::int64_t>(tile.parts.size()), 16,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t p = begin; p < end; ++p) {
            const TilePart& part = tile.parts[static_cast<std::size_t>(p)];
            for (std::int32_t r = 0; r < part.rows; ++r) {
              // Angles in fp64: at position 262,143 an fp32 product is off by some 0.01 radians.
              for (std::int64_t i = 0; i < pairs; ++i) {
                const double angle =
                    (part.position + r) * rope_frequency_[static_cast<std::size_t>(i)];
                cos_[(part.row + r) * pairs + i] = static_cast<float>(std::cos(angle));
                sin_[(part.row + r) * pairs + i] = static_cast<float>(std::sin(angle));
              }
            }
          }
        });
  for (const TilePart& part : tile.parts) {
    const auto tokens = slices_[static_cast<std::size_t>(part.slice)].tokens;
    split(part.rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int32_t token = tokens[static_cast<std::size_t>(part.offset + r)];
        ops_.embed_packed(weights_->embedding_table(), token, x_ + (part.row + r) * ld_hidden_);
      }
    });
  }
}

void CpuBackend::run_tile(Tile& tile) {
  begin_tile(tile);
  std::int32_t recurrent = 0;
  std::int32_t full = 0;
  norm_rows(weights_->layers.front().input_norm, tile.rows);
  for (std::size_t i = 0; i < weights_->layers.size() && tile.rows > 0; ++i) {
    const LayerWeights& layer = weights_->layers[i];
    const bool last = i + 1 == weights_->layers.size();
    if (layer.kind == LayerKind::full_attention) {
      run_attention(layer, full++, tile, last);
    } else {
      run_recurrent(layer, recurrent++, tile);
    }
    if (tile.rows == 0) return;
    gemm(layer.out, mixed_, ld_mixed_, tile.rows, output_, ld_hidden_);
    add_and_norm(layer.post_norm, tile.rows);
    run_mlp(layer, tile);
    if (last) {
      add_output(tile.rows);
    } else {
      add_and_norm(weights_->layers[i + 1].input_norm, tile.rows);
    }
    if (tap_) tap_(static_cast<std::int32_t>(i), tile, x_, ld_hidden_);
  }
  run_head(tile);
}

void CpuBackend::keep_read_rows(Tile& tile) {
  Tile kept;
  const std::int64_t pairs = config().rotary_dim / 2;
  const auto move_rows = [](float* base, std::int64_t ld, std::int32_t from, std::int32_t to,
                            std::int32_t rows) {
    std::memmove(base + to * ld, base + from * ld,
                 static_cast<std::size_t>(rows * ld) * sizeof(float));
  };
  for (const TilePart& part : tile.parts) {
    const std::int32_t rows = part.rows - part.read_from;
    if (rows == 0) continue;
    const std::int32_t from = part.row + part.read_from;
    move_rows(x_, ld_hidden_, from, kept.rows, rows);
    move_rows(normed_, ld_hidden_, from, kept.rows, rows);
    move_rows(cos_, pairs, from, kept.rows, rows);
    move_rows(sin_, pairs, from, kept.rows, rows);
    kept.parts.push_back({part.slice, kept.rows, rows, part.offset + part.read_from,
                          part.position + part.read_from, 0});
    kept.rows += rows;
  }
  tile = std::move(kept);
}

void CpuBackend::run_head(const Tile& tile) {
  Tile read = tile;
  keep_read_rows(read);
  if (read.rows == 0) return;
  const std::int64_t vocab = config().vocab_size;
  norm_rows(weights_->final_norm, read.rows);
  gemm(weights_->head, normed_, ld_hidden_, read.rows, floats(logits_) + logits_rows_ * vocab,
       vocab, Made::rounded);
  logits_rows_ += read.rows;
}

void CpuBackend::reserve_logits(std::int64_t rows) {
  const auto bytes = static_cast<std::size_t>(rows) *
                     static_cast<std::size_t>(config().vocab_size) * sizeof(float);
  if (bytes > logits_.size()) {
    logits_ = {};  // first, so that old and new never stand side by side
    logits_ = kernels::HugeBuffer(bytes);
  }
}

std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<const Weights> weights,
                                          const CpuOptions& options) {
  check(weights != nullptr, "make_cpu_backend: no weights");
  return std::make_unique<CpuBackend>(std::move(weights), options);
}

}  // namespace cairn::model
