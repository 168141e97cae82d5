// SPDX-License-Identifier: Apache-2.0
// Cases of attention over cached keys and values, split as the backend splits it.
#include <string>

#include "cli/kernel_cases.hpp"

namespace cairn::cli {
namespace {

constexpr std::int64_t kChunkRows = 16;  // of the backend: rows that share each tile of keys

class AttentionBench {
 public:
  explicit AttentionBench(const KernelBench& on)
      : on_(on),
        layout_{kernels::KvType::bf16, on.shape.num_kv_heads, on.shape.head_dim},
        group_(on.shape.num_heads / on.shape.num_kv_heads),
        width_(static_cast<std::int64_t>(on.shape.num_heads) * on.shape.head_dim) {}

  void take_all(std::int64_t context, const TakeCase& take) {
    fill(context);
    for (const std::int64_t rows : on_.rows) {
      if (rows > context) continue;
      KernelCase one;
      one.kernel = "attention";
      one.shape = std::to_string(on_.shape.num_heads) + " heads of " +
                  std::to_string(on_.shape.head_dim) + ", " +
                  std::to_string(on_.shape.num_kv_heads) + " of keys";
      one.rows = rows;
      one.context = context;
      // The row at position p sees p + 1 keys.
      const double seen = static_cast<double>(rows) *
                          (static_cast<double>(context) - static_cast<double>(rows - 1) / 2);
      one.arithmetic = Arithmetic::rounded_products;
      one.operations = 4 * seen * static_cast<double>(width_);
      const auto blocks = context / kernels::kKvBlockTokens;
      one.bytes = static_cast<double>(layout_.layer_bytes()) * static_cast<double>(blocks) +
                  static_cast<double>(8 * rows * width_);
      one.calls = on_.shape.full_layers();
      q_ = some_floats(rows * width_);
      o_.resize(q_.size());
      if (rows == 1) {
        one.work = [&](std::int64_t round) { one_row(round, context); };
      } else {
        one.work = [&, rows](std::int64_t round) { chunk(round, context, rows); };
      }
      take(one);
    }
  }

 private:
  void fill(std::int64_t context) {
    const std::int64_t blocks = (context + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
    const std::size_t once = static_cast<std::size_t>(blocks) * layout_.layer_bytes();
    copies_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(on_.arena.size() / once));
    memory_ = kernels::HugeBuffer(once * static_cast<std::size_t>(copies_));
    const std::vector<float> kv =
        some_floats(static_cast<std::int64_t>(layout_.kv_heads) * layout_.head_dim);
    blocks_.clear();
    for (std::int64_t b = 0; b < blocks * copies_; ++b) {
      std::byte* const block = memory_.data() + static_cast<std::size_t>(b) * layout_.layer_bytes();
      for (std::int32_t slot = 0; slot < kernels::kKvBlockTokens; ++slot) {
        on_.ops.kv_store(layout_, block, slot, kv.data(), kv.data());
      }
      blocks_.push_back(block);
    }
  }

  kernels::AttentionArgs args(std::int64_t round, std::int64_t context, std::int64_t head) const {
    kernels::AttentionArgs a;
    a.layout = layout_;
    a.kv_head = static_cast<std::int32_t>(head);
    a.group = group_;
    a.rows = 1;
    a.position = context - 1;
    const auto blocks = static_cast<std::int64_t>(blocks_.size()) / copies_;
    a.blocks = blocks_.data() + round % copies_ * blocks;
    a.scale = 1.0F / 16;
    a.ldq = a.ldo = width_;
    a.q = q_.data() + head * group_ * layout_.head_dim;
    return a;
  }

  std::int64_t range_floats() const {
    return group_ * kernels::attention_partial_size(layout_.head_dim);
  }
  static float* reserve(kernels::HugeBuffer& buffer, std::int64_t floats) {
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    if (buffer.size() < bytes) buffer = kernels::HugeBuffer(bytes);
    return reinterpret_cast<float*>(buffer.data());
  }
  /// The thread's work area, which stays in its caches from one chunk to the next.
  float* scratch(std::int64_t rows) const {
    thread_local kernels::HugeBuffer area;
    return reserve(area, kernels::attention_scratch(rows, group_, layout_.head_dim));
  }

  void chunk(std::int64_t round, std::int64_t context, std::int64_t rows) {
    const std::int64_t chunks = (rows + kChunkRows - 1) / kChunkRows * layout_.kv_heads;
    on_.pool.run(chunks, [&](std::int64_t i) {
      const std::int64_t row = i / layout_.kv_heads * kChunkRows;
      const std::int64_t head = i % layout_.kv_heads;
      kernels::AttentionArgs a = args(round, context, head);
      a.rows = static_cast<std::int32_t>(std::min(kChunkRows, rows - row));
      a.position = context - rows + row;
      a.q += row * width_;
      a.o = o_.data() + row * width_ + head * group_ * layout_.head_dim;
      a.scratch = scratch(a.rows);
      on_.ops.attention(a);
    });
  }

  void one_row(std::int64_t round, std::int64_t context) {
    const std::int64_t ranges = (context - 1) / kernels::kAttentionRange + 1;
    const std::int64_t all = ranges * layout_.kv_heads;
    float* const partials = reserve(partials_, all * range_floats());
    on_.pool.run(all, [&](std::int64_t i) {
      kernels::AttentionArgs a = args(round, context, i / ranges);
      a.scratch = scratch(1);
      on_.ops.attention_range(a, i % ranges, partials + i * range_floats());
    });
    on_.pool.run(layout_.kv_heads, [&](std::int64_t head) {
      kernels::AttentionArgs a = args(round, context, head);
      a.o = o_.data() + head * group_ * layout_.head_dim;
      on_.ops.attention_combine(a, ranges, partials + head * ranges * range_floats());
    });
  }

  const KernelBench& on_;
  kernels::KvLayout layout_;
  std::int32_t group_;
  std::int64_t width_;  // of a row of queries
  std::int64_t copies_ = 1;
  kernels::HugeBuffer memory_, partials_;
  std::vector<const std::byte*> blocks_;
  std::vector<float> q_, o_;
};

}  // namespace

void attention_cases(const KernelBench& on, const TakeCase& take) {
  if (!on.wants("attention")) return;
  AttentionBench bench(on);
  for (const std::int64_t context : on.contexts) bench.take_all(context, take);
}

}  // namespace cairn::cli
