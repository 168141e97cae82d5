// SPDX-License-Identifier: Apache-2.0
// Cases of norms, gates, convolution, RoPE and the recurrence.
//
// Bytes are what a kernel reads and writes once. In the model most of it was just written by the
// kernel before and comes from a cache, so there they take less time than here.
#include <algorithm>
#include <memory>
#include <string>

#include "cli/kernel_cases.hpp"

namespace cairn::cli {
namespace {

constexpr float kEps = 1e-6F;

using Rows = std::function<void(float* x, std::int64_t begin, std::int64_t end)>;

/// A kernel over rows of `width` values in place: `touched` of them are read and written a row.
void in_place(const KernelBench& on, const char* kernel, const std::string& shape,
              std::int64_t width, double touched_bytes, std::int64_t calls, const TakeCase& take,
              const Rows& fn) {
  if (!on.wants(kernel)) return;
  for (const std::int64_t rows : on.rows) {
    ColdArray x(rows * width, on);
    KernelCase one;
    one.kernel = kernel;
    one.shape = shape;
    one.rows = rows;
    one.bytes = touched_bytes * static_cast<double>(rows);
    one.calls = calls;
    one.work = [&](std::int64_t round) {
      on.split(rows, kernels::kRowGrain,
               [&](std::int64_t begin, std::int64_t end) { fn(x.at(round), begin, end); });
    };
    take(one);
  }
}

std::string width_of(std::int64_t n) { return "width " + std::to_string(n); }
std::string heads_of(std::int64_t heads, std::int64_t dim) {
  return std::to_string(heads) + " heads of " + std::to_string(dim);
}

void norm_cases(const KernelBench& on, const TakeCase& take) {
  const model::ModelConfig& c = on.shape;
  const std::int64_t h = c.hidden_size;
  const std::vector<float> w =
      some_floats(std::max<std::int64_t>({h, c.head_dim, c.linear_value_dim}));
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  in_place(on, "rms_norm", width_of(h), 2 * h + 16, 8 * d(h), 2 * c.num_layers + 1, take,
           [&](float* x, std::int64_t begin, std::int64_t end) {
             const std::int64_t ld = 2 * h + 16;
             on.ops.rms_norm(x + begin * ld, ld, end - begin, h, w.data(), kEps, x + begin * ld + h,
                             ld);
           });
  in_place(on, "residual_add", width_of(h), 2 * h, 12 * d(h), 2 * c.num_layers, take,
           [&](float* x, std::int64_t begin, std::int64_t end) {
             on.ops.residual_add(x + 2 * h * begin, x + 2 * h * begin + h * (end - begin),
                                 h * (end - begin));
           });
  const std::int64_t inner = c.intermediate_size;
  in_place(on, "swiglu", width_of(inner), 2 * inner + 16, 12 * d(inner), c.num_layers, take,
           [&](float* x, std::int64_t begin, std::int64_t end) {
             const std::int64_t ld = 2 * inner + 16;
             float* const gate = x + begin * ld;
             on.ops.swiglu(gate, ld, gate + inner, ld, end - begin, inner, gate, ld);
           });
  const std::int64_t values = c.value_channels();
  in_place(on, "gated_norm", heads_of(c.linear_value_heads, c.linear_value_dim), 2 * values + 16,
           12 * d(values), c.linear_layers(), take,
           [&](float* x, std::int64_t begin, std::int64_t end) {
             const std::int64_t ld = 2 * values + 16;
             float* const o = x + begin * ld;
             on.ops.gated_norm(o, ld, o + values, ld, end - begin, c.linear_value_heads,
                               c.linear_value_dim, w.data(), kEps, o, ld);
           });
  const std::int64_t keys = c.key_channels();
  in_place(on, "l2_norm_qk", heads_of(c.linear_key_heads, c.linear_key_dim), 2 * keys + 16,
           16 * d(keys), c.linear_layers(), take,
           [&](float* x, std::int64_t begin, std::int64_t end) {
             const std::int64_t ld = 2 * keys + 16;
             on.ops.l2_norm_qk(x + begin * ld, x + begin * ld + keys, ld, end - begin,
                               c.linear_key_heads, c.linear_key_dim);
           });
}

void head_cases(const KernelBench& on, const TakeCase& take) {
  const model::ModelConfig& c = on.shape;
  const std::int64_t dim = c.head_dim;
  const std::int64_t heads = c.num_heads * dim;
  const std::vector<float> w = some_floats(dim);
  const std::vector<float> angles = some_floats(c.rotary_dim);
  const std::int64_t ld = 3 * heads + 16;  // query and gate of each head, then what becomes of them
  in_place(on, "norm_rope", heads_of(c.num_heads, dim), ld, static_cast<double>(8 * heads),
           c.full_layers(), take, [&](float* x, std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               on.ops.norm_rope(x + r * ld, 2 * dim, c.num_heads, c.head_dim, w.data(), kEps,
                                angles.data(), angles.data() + c.rotary_dim / 2, c.rotary_dim,
                                x + r * ld + 2 * heads, dim);
             }
           });
  in_place(on, "sigmoid_gate", heads_of(c.num_heads, dim), ld, static_cast<double>(12 * heads),
           c.full_layers(), take, [&](float* x, std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               on.ops.sigmoid_gate(x + r * ld + 2 * heads, x + r * ld + dim, 2 * dim, c.num_heads,
                                   c.head_dim);
             }
           });
  const std::int64_t kv = static_cast<std::int64_t>(c.num_kv_heads) * dim;
  const kernels::KvLayout layout{kernels::KvType::bf16, c.num_kv_heads, c.head_dim};
  const auto most = *std::max_element(on.rows.begin(), on.rows.end());
  const auto blocks = (most + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
  kernels::HugeBuffer cache(static_cast<std::size_t>(blocks) * layout.layer_bytes());
  in_place(on, "kv_store", heads_of(c.num_kv_heads, dim), 2 * kv + 16, static_cast<double>(12 * kv),
           c.full_layers(), take, [&](float* x, std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               float* const key = x + r * (2 * kv + 16);
               on.ops.kv_store(
                   layout,
                   cache.data() +
                       static_cast<std::size_t>(r / kernels::kKvBlockTokens) * layout.layer_bytes(),
                   static_cast<std::int32_t>(r % kernels::kKvBlockTokens), key, key + kv);
             }
           });
}

void gate_cases(const KernelBench& on, const TakeCase& take) {
  const std::int64_t heads = on.shape.linear_value_heads;
  const std::vector<float> bias = some_floats(heads);
  const std::int64_t ld = 4 * heads;
  in_place(on, "gates", std::to_string(heads) + " heads", ld, static_cast<double>(16 * heads),
           on.shape.linear_layers(), take, [&](float* x, std::int64_t begin, std::int64_t end) {
             float* const row = x + begin * ld;
             // The results stand together, behind the inputs of the last row of this range.
             float* const out = x + begin * ld + (end - begin) * 2 * heads;
             on.ops.gates(row, row + heads, 2 * heads, end - begin,
                          static_cast<std::int32_t>(heads), bias.data(), bias.data(), out,
                          out + (end - begin) * heads);
           });
}

void conv_cases(const KernelBench& on, const TakeCase& take) {
  if (!on.wants("conv_silu")) return;
  const std::int64_t channels = on.shape.conv_channels();
  const std::int64_t ld = channels + 16;
  const std::vector<float> weight = some_floats(on.shape.conv_kernel * channels);
  std::vector<float> window(weight.size());
  for (const std::int64_t rows : on.rows) {
    ColdArray x(rows * ld, on);
    KernelCase one;
    one.kernel = "conv_silu";
    one.shape = std::to_string(channels) + " channels";
    one.rows = rows;
    one.bytes = static_cast<double>(8 * rows * channels);
    one.calls = on.shape.linear_layers();
    one.work = [&](std::int64_t round) {
      on.split(channels / 16, 8, [&](std::int64_t begin, std::int64_t end) {
        kernels::ConvArgs a;
        a.channels = channels;
        a.channel_begin = 16 * begin;
        a.channel_end = 16 * end;
        a.taps = on.shape.conv_kernel;
        a.tokens = rows;
        a.weight = weight.data();
        a.window = window.data();
        a.x = a.y = x.at(round);
        a.ldx = a.ldy = ld;
        on.ops.conv_silu(a);
      });
    };
    take(one);
  }
}

}  // namespace

void row_cases(const KernelBench& on, const TakeCase& take) {
  norm_cases(on, take);
  conv_cases(on, take);
  gate_cases(on, take);
  head_cases(on, take);
}

void recurrence_cases(const KernelBench& on, const TakeCase& take) {
  if (!on.wants("delta_rule")) return;
  const model::ModelConfig& c = on.shape;
  const std::int64_t heads = c.linear_value_heads;
  const std::int64_t dk = c.linear_key_dim;
  const std::int64_t dv = c.linear_value_dim;
  const std::int64_t ld = heads * std::max(dk, dv) + 16;
  ColdArray states(heads * dk * dv, on);
  for (const std::int64_t rows : on.rows) {
    const std::vector<float> x = some_floats(rows * ld, 0.1F);
    const std::vector<float> gate(static_cast<std::size_t>(rows * heads), 0.5F);
    std::vector<float> o(x.size());
    const std::int64_t groups = kernels::delta_groups(c.linear_value_dim);
    std::vector<float> pending(static_cast<std::size_t>(heads * groups));
    KernelCase one;
    one.kernel = "delta_rule";
    one.shape =
        std::to_string(heads) + " heads of " + std::to_string(dk) + "x" + std::to_string(dv);
    one.rows = rows;
    // Update, prediction, output: three instructions on the pipes of multiply-adds.
    one.operations = 6 * static_cast<double>(rows * heads * dk * dv);
    one.bytes = static_cast<double>(8 * heads * dk * dv + 4 * rows * heads * (2 * dk + 2 * dv));
    one.calls = c.linear_layers();
    one.work = [&](std::int64_t round) {
      std::fill(pending.begin(), pending.end(), 0.0F);  // each round has another S
      on.pool.run(heads, [&](std::int64_t h) {
        kernels::DeltaArgs a;
        a.dk = c.linear_key_dim;
        a.dv = a.column_end = c.linear_value_dim;
        a.tokens = rows;
        a.state = states.at(round) + h * dk * dv;
        a.pending = pending.data() + h * groups;
        a.q = a.k = a.v = x.data() + h * std::max(dk, dv);
        a.ldq = a.ldk = a.ldv = a.ldo = ld;
        a.decay = a.beta = gate.data() + h;
        a.ldg = heads;
        a.o = o.data() + h * std::max(dk, dv);
        on.ops.delta_rule(a);
      });
    };
    take(one);
  }
}

}  // namespace cairn::cli
