// SPDX-License-Identifier: Apache-2.0
// Gated DeltaNet layers. Projections in `wide`: [q | k | v | z | b | a]; a layer's share of a state
// is S [value heads, dk, dv], the conv window [3, CD] and S's pending factors, all fp32.
#include <algorithm>
#include <cstring>

#include "model/net/cpu_backend.hpp"

namespace cairn::model {
namespace {

constexpr std::int32_t kConvRows = 32;  // of one head: the norm finds them in the first cache
constexpr std::int64_t kGateRows = 16;  // rows of gates worth a chunk

// Calls fn(begin, rows, save) for the runs of a part's rows between save points; `save` is where to
// copy what a run leaves behind, or null. Whoever walks a part sees the same runs.
template <class F>
void for_runs(const StepSlice& slice, const TilePart& part, F&& fn) {
  std::int32_t done = 0;
  for (const SavePoint& save : slice.saves) {
    const std::int32_t end = save.position - part.position;
    if (end <= 0) continue;
    if (end > part.rows) break;
    fn(done, end - done, save.state);
    done = end;
  }
  if (done < part.rows) fn(done, part.rows - done, static_cast<std::byte*>(nullptr));
}

}  // namespace

void CpuBackend::convolve(const LayerWeights& layer, std::size_t offset, const TilePart& part,
                          std::int32_t key_head) {
  const ModelConfig& c = config();
  const StepSlice& slice = slices_[static_cast<std::size_t>(part.slice)];
  const std::int64_t keys = c.key_channels();
  const std::int64_t dk = c.linear_key_dim;
  const std::int64_t group = static_cast<std::int64_t>(c.linear_value_heads / c.linear_key_heads) *
                             c.linear_value_dim;  // value channels of this key head
  const std::size_t window_offset = offset + state_layer_.window;

  kernels::ConvArgs args;
  args.channels = c.conv_channels();
  args.taps = c.conv_kernel;
  args.weight = layer.conv.data();
  args.window = reinterpret_cast<float*>(slice.state + window_offset);
  args.ldx = args.ldy = ld_wide_;
  const auto run_channels = [&](std::int64_t begin, std::int64_t end, float* rows,
                                std::byte* save) {
    args.channel_begin = begin;
    args.channel_end = end;
    args.x = args.y = rows;
    ops_.conv_silu(args);
    if (save == nullptr) return;
    auto* const to = reinterpret_cast<float*>(save + window_offset);
    for (std::int32_t tap = 0; tap + 1 < args.taps; ++tap) {
      std::copy(args.window + tap * args.channels + begin, args.window + tap * args.channels + end,
                to + tap * args.channels + begin);
    }
  };
  for_runs(slice, part, [&](std::int32_t begin, std::int32_t rows, std::byte* save) {
    for (std::int32_t done = 0; done < rows; done += kConvRows) {
      float* const first = wide_ + (part.row + begin + done) * ld_wide_;
      args.tokens = std::min(kConvRows, rows - done);
      std::byte* const after = done + kConvRows < rows ? nullptr : save;
      run_channels(key_head * dk, (key_head + 1) * dk, first, after);
      run_channels(keys + key_head * dk, keys + (key_head + 1) * dk, first, after);
      run_channels(2 * keys + key_head * group, 2 * keys + (key_head + 1) * group, first, after);
      float* const q = first + key_head * dk;
      ops_.l2_norm_qk(q, q + keys, ld_wide_, args.tokens, 1, c.linear_key_dim);
    }
  });
}

void CpuBackend::recur(const LayerWeights& layer, std::size_t offset, const TilePart& part,
                       std::int32_t value_head, std::int32_t column_begin,
                       std::int32_t column_end) {
  const ModelConfig& c = config();
  const StepSlice& slice = slices_[static_cast<std::size_t>(part.slice)];
  const std::int32_t key_head = value_head / (c.linear_value_heads / c.linear_key_heads);
  const std::int64_t dv = c.linear_value_dim;
  const std::size_t head_offset = offset + sizeof(float) * static_cast<std::size_t>(value_head) *
                                               static_cast<std::size_t>(c.linear_key_dim * dv);
  const std::int32_t groups = kernels::delta_groups(c.linear_value_dim);
  const std::size_t pending_offset =
      offset + state_layer_.pending +
      sizeof(float) * static_cast<std::size_t>(value_head) * static_cast<std::size_t>(groups);
  kernels::DeltaArgs args;
  args.dk = c.linear_key_dim;
  args.dv = c.linear_value_dim;
  args.column_begin = column_begin;
  args.column_end = column_end;
  args.state = reinterpret_cast<float*>(slice.state + head_offset);
  args.pending = reinterpret_cast<float*>(slice.state + pending_offset);
  args.ldq = args.ldk = args.ldv = ld_wide_;
  args.ldg = c.linear_value_heads;
  args.ldo = ld_mixed_;
  for_runs(slice, part, [&](std::int32_t begin, std::int32_t rows, std::byte* save) {
    const std::int64_t row = part.row + begin;
    const float* const wide = wide_ + row * ld_wide_;
    args.tokens = rows;
    args.q = wide + key_head * c.linear_key_dim;
    args.k = args.q + c.key_channels();
    args.v = wide + 2 * c.key_channels() + value_head * dv;
    args.decay = decay_ + row * c.linear_value_heads + value_head;
    args.beta = beta_ + row * c.linear_value_heads + value_head;
    args.o = mixed_ + row * ld_mixed_ + value_head * dv;
    ops_.delta_rule(args);
    if (save == nullptr) return;
    auto* const to = reinterpret_cast<float*>(save + head_offset);
    for (std::int32_t i = 0; i < args.dk; ++i) {
      std::copy(args.state + i * dv + column_begin, args.state + i * dv + column_end,
                to + i * dv + column_begin);
    }
    std::copy(
        args.pending + column_begin / kernels::kDeltaColumns,
        args.pending + kernels::delta_groups(column_end),
        reinterpret_cast<float*>(save + pending_offset) + column_begin / kernels::kDeltaColumns);
  });
  if (column_begin != 0 || column_end != dv) return;  // the norm needs the whole head
  float* const o = mixed_ + part.row * ld_mixed_ + value_head * dv;
  const float* const z = wide_ + part.row * ld_wide_ + c.conv_channels() + value_head * dv;
  ops_.gated_norm(o, ld_mixed_, z, ld_wide_, part.rows, 1, c.linear_value_dim,
                  layer.mix_norm.data(), c.rms_norm_eps, o, ld_mixed_);
}

void CpuBackend::run_gates(const LayerWeights& layer, const Tile& tile) {
  const ModelConfig& c = config();
  const std::int64_t heads = c.linear_value_heads;
  const std::int64_t b_column = c.conv_channels() + c.value_channels();
  // Rows are divided, not the one or two panels of weights, which every thread's cache can hold.
  split(tile.rows, kGateRows, [&](std::int64_t begin, std::int64_t end) {
    float* const b = wide_ + begin * ld_wide_ + b_column;
    if (layer.gates.n() > 0) {
      ops_.gemm(layer.gates, 0, layer.gates.panels(), normed_ + begin * ld_hidden_, ld_hidden_,
                end - begin, b, ld_wide_);
    }
    ops_.gates(b + heads, b, ld_wide_, end - begin, c.linear_value_heads, layer.a_log.data(),
               layer.dt_bias.data(), decay_ + begin * heads, beta_ + begin * heads);
  });
}

void CpuBackend::run_recurrent(const LayerWeights& layer, std::int32_t index, const Tile& tile) {
  const ModelConfig& c = config();
  const std::size_t offset = static_cast<std::size_t>(index) * state_layer_.bytes;
  const auto parts = static_cast<std::int64_t>(tile.parts.size());
  const std::int64_t key_heads = c.linear_key_heads;
  const std::int64_t value_heads = c.linear_value_heads;
  gemm(layer.in, normed_, ld_hidden_, tile.rows, wide_, ld_wide_, Made::rounded);
  run_gates(layer, tile);
  if (parts * key_heads >= 2 * pool_.threads()) {
    // One job: what the convolution leaves is still in the cache when the recurrence reads it.
    const std::int64_t each = value_heads / key_heads;
    pool_.run(parts * key_heads, [&](std::int64_t chunk) {
      const TilePart& part = tile.parts[static_cast<std::size_t>(chunk / key_heads)];
      const std::int64_t key_head = chunk % key_heads;
      convolve(layer, offset, part, static_cast<std::int32_t>(key_head));
      for (std::int64_t head = key_head * each; head < (key_head + 1) * each; ++head) {
        recur(layer, offset, part, static_cast<std::int32_t>(head), 0, c.linear_value_dim);
      }
    });
    return;
  }
  pool_.run(parts * key_heads, [&](std::int64_t chunk) {
    convolve(layer, offset, tile.parts[static_cast<std::size_t>(chunk / key_heads)],
             static_cast<std::int32_t>(chunk % key_heads));
  });
  // Heads are cut into columns only when there are too few of them to go round.
  const std::int64_t heads = parts * value_heads;
  const std::int64_t most = std::max(1, c.linear_value_dim / kernels::kDeltaColumns);
  const std::int64_t cuts =
      heads >= 2 * pool_.threads() ? 1 : std::min(most, (4 * pool_.threads() + heads - 1) / heads);
  const std::int64_t groups = kernels::delta_groups(c.linear_value_dim);
  pool_.run(heads * cuts, [&](std::int64_t chunk) {
    const std::int64_t head = chunk / cuts;
    const std::int64_t cut = chunk % cuts;
    const auto column = [&](std::int64_t i) {
      return std::min(c.linear_value_dim,
                      static_cast<std::int32_t>(groups * i / cuts) * kernels::kDeltaColumns);
    };
    recur(layer, offset, tile.parts[static_cast<std::size_t>(head / value_heads)],
          static_cast<std::int32_t>(head % value_heads), column(cut), column(cut + 1));
  });
  if (cuts == 1) return;
  split(tile.rows, 4, [&](std::int64_t begin, std::int64_t end) {
    float* const o = mixed_ + begin * ld_mixed_;
    ops_.gated_norm(o, ld_mixed_, wide_ + begin * ld_wide_ + c.conv_channels(), ld_wide_,
                    end - begin, c.linear_value_heads, c.linear_value_dim, layer.mix_norm.data(),
                    c.rms_norm_eps, o, ld_mixed_);
  });
}

}  // namespace cairn::model
