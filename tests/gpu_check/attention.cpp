// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/rope.hpp"
#include "tests/gpu_check/arrays.hpp"
#include "tests/gpu_check/bounds.hpp"
#include "tests/gpu_check/shapes.hpp"

namespace cairn::gpu_check {
namespace {

using namespace kernels::cuda;  // NOLINT

constexpr std::int32_t kContext = kDryRun ? 600 : 8192;

/// Sequences of kContext random keys and values of one layer.
class Cache {
 public:
  Cache(KernelClock& clock, std::int32_t sequences)
      : config(measured_model()),
        sequences_(sequences),
        memory_(clock.stream(), std::int64_t{sequences} * blocks() * block_bytes() / 2),
        tables_(clock.stream(), block_numbers()) {}

  PagedKv<Bf16> kv() const {
    PagedKv<Bf16> kv;
    kv.pool = reinterpret_cast<std::byte*>(memory_.get());
    kv.block_bytes = block_bytes();
    kv.tables = tables_.get();
    kv.table_stride = blocks();
    kv.kv_heads = config.num_kv_heads;
    kv.head_dim = config.head_dim;
    return kv;
  }
  double key_bytes() const { return 4.0 * config.num_kv_heads * config.head_dim; }  // and values
  std::int32_t group() const { return config.num_heads / config.num_kv_heads; }
  std::int64_t width() const { return std::int64_t{config.num_heads} * config.head_dim; }
  std::int32_t sequences() const { return sequences_; }

  const model::ModelConfig& config;

 private:
  std::int64_t blocks() const { return ceil_div(kContext, kernels::kKvBlockTokens); }
  std::int64_t block_bytes() const {
    return 4 * kernels::kKvBlockTokens * std::int64_t{config.num_kv_heads} * config.head_dim;
  }
  std::vector<std::int32_t> block_numbers() const {
    std::vector<std::int32_t> all(static_cast<std::size_t>(sequences_ * blocks()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::int32_t sequences_;
  Array<Bf16> memory_;
  Array<std::int32_t> tables_;
};

template <class Args>
void describe(const Cache& cache, Args& args) {
  args.kv = cache.kv();
  args.group = cache.group();
  args.scale = 1.0F / std::sqrt(static_cast<float>(cache.config.head_dim));
}

void measure_decode(KernelClock& clock, const Cache& cache, std::int32_t batch) {
  std::vector<QueryTile> tiles;  // of launch i: batch of them from i * batch on
  const int launches = std::max(4, 2 * cache.sequences() / batch);
  for (std::int32_t i = 0; i < launches * batch; ++i) {
    append_query_tiles({i % cache.sequences(), i % batch, 1, kContext - 1}, cache.group(),
                       kDecodeTileRows, tiles);
  }
  const Array<QueryTile> device_tiles(clock.stream(), tiles);
  const Array<Bf16> q(clock.stream(), batch * cache.width());
  const Space<Bf16> y(batch * cache.width());
  AttentionDecodeArgs<Bf16, Bf16> args;
  describe(cache, args);
  args.q = q.get();
  args.tile_count = batch;
  args.ranges = (kContext - 1) / 512 + 1;
  args.y = y.get();
  const Space<float> scratch(attention_scratch_floats(args));
  args.scratch = scratch.get();
  clock.measure("attention_decode, " + std::to_string(batch) + " at " + std::to_string(kContext),
                {cache.key_bytes() * kContext * batch, 0, 0}, launches, [&](int i) {
                  args.tiles = device_tiles.get() + static_cast<std::int64_t>(i) * batch;
                  attention_decode(clock.stream().get(), args);
                });
}

void measure_prefill(KernelClock& clock, const Cache& cache) {
  constexpr auto rows = static_cast<std::int32_t>(kPrefillRows);
  std::vector<QueryTile> tiles;
  append_query_tiles({0, 0, rows, kContext - rows}, cache.group(), kPrefillTileRows, tiles);
  const Array<QueryTile> device_tiles(clock.stream(), tiles);
  const Array<Bf16> q(clock.stream(), rows * cache.width());
  const Space<Bf16> y(rows * cache.width());
  AttentionArgs<Bf16, Bf16> args;
  describe(cache, args);
  args.q = q.get();
  args.tiles = device_tiles.get();
  args.tile_count = static_cast<std::int64_t>(tiles.size());
  args.y = y.get();
  const double keys = rows * (kContext - 0.5 * (rows - 1));  // that all queries see together
  clock.measure("attention_prefill, " + std::to_string(rows) + " to " + std::to_string(kContext),
                {cache.key_bytes() * kContext, 4.0 * static_cast<double>(cache.width()) * keys, 0},
                4, [&](int) { attention_prefill(clock.stream().get(), args); });
}

void measure_rope(KernelClock& clock, const Cache& cache, std::int64_t rows) {
  const model::ModelConfig& c = cache.config;
  const std::int64_t kv_width = std::int64_t{c.num_kv_heads} * c.head_dim;
  const std::int64_t ld = 2 * cache.width() + 2 * kv_width;
  const Array<float> projected(clock.stream(), rows * ld);
  const Array<float> norm(clock.stream(), c.head_dim);
  const Array<float> angles(clock.stream(), std::int64_t{kContext} * c.rotary_dim / 2);
  const Array<std::int32_t> sequence(clock.stream(),
                                     std::vector<std::int32_t>(static_cast<std::size_t>(rows), 0));
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), 0);
  const Array<std::int32_t> device_positions(clock.stream(), positions);
  const Space<Bf16> q(rows * cache.width());
  QkRopeArgs<Bf16> args;
  args.q = projected.get();
  args.q_head_stride = 2 * c.head_dim;
  args.k = projected.get() + 2 * cache.width();
  args.v = args.k + kv_width;
  args.ld = ld;
  args.q_norm = args.k_norm = norm.get();
  args.eps = 1e-6F;
  args.cos = args.sin = angles.get();
  args.rotary_dim = c.rotary_dim;
  args.sequence = sequence.get();
  args.positions = device_positions.get();
  args.rows = rows;
  args.heads = c.num_heads;
  args.kv = cache.kv();
  args.q_out = q.get();
  const auto outputs = static_cast<double>(rows * (cache.width() + 2 * kv_width));
  clock.measure("qk_rope, " + std::to_string(rows) + (rows == 1 ? " row" : " rows"),
                {6 * outputs, 0, 0}, rows == 1 ? 20 : 4,
                [&](int) { qk_rope(clock.stream().get(), args); });
}

}  // namespace

void measure_attention(KernelClock& clock) {
  if (!kernels::cuda::describe_device(kDevice).multiplies_bf16()) return;
  {
    const Cache cache(clock, kDryRun ? 2 : 32);
    measure_decode(clock, cache, 1);
    measure_decode(clock, cache, cache.sequences());
    measure_prefill(clock, cache);
  }
  const Cache cache(clock, 1);  // whose keys qk_rope writes over
  measure_rope(clock, cache, 1);
  measure_rope(clock, cache, std::min<std::int64_t>(kPrefillRows, kContext));
}

}  // namespace cairn::gpu_check
