// SPDX-License-Identifier: Apache-2.0
// What the kernel cases share, and the cases of products, sampling and copies.
#include "cli/kernel_cases.hpp"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "model/net/memory_layout.hpp"

namespace cairn::cli {

std::vector<float> some_floats(std::int64_t n, float scale) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::uint32_t bits = 1;
  for (float& x : values) {
    bits = bits * 1664525U + 1013904223U;
    x = scale * (static_cast<float>(bits >> 8) * 0x1p-23F - 1.0F);
  }
  return values;
}

ColdArray::ColdArray(std::int64_t floats, const KernelBench& on)
    : stride_((floats + 15) / 16 * 16),
      copies_(std::max<std::int64_t>(
          1, static_cast<std::int64_t>(on.arena.size() / sizeof(float)) / stride_)) {
  const auto bytes = static_cast<std::size_t>(stride_) * sizeof(float);
  if (bytes > on.arena.size()) own_ = kernels::HugeBuffer(bytes);
  data_ = reinterpret_cast<float*>(own_.size() > 0 ? own_.data() : on.arena.data());
  const std::vector<float> one = some_floats(stride_);
  for (std::int64_t c = 0; c < copies_; ++c) std::copy(one.begin(), one.end(), at(c));
}

const std::vector<std::string>& kernel_names() {
  static const std::vector<std::string> names = {
      "embed",        "gemm",      "round_rows", "quantise_rows", "rms_norm",
      "residual_add", "swiglu",    "conv_silu",  "gates",         "l2_norm_qk",
      "gated_norm",   "norm_rope", "kv_store",   "sigmoid_gate",  "delta_rule",
      "attention",    "argmax",    "weigh",      "copy_state"};
  return names;
}

namespace {

constexpr std::int64_t kSomePrime = 4099;  // rows of a table that share no memory

struct Product {
  std::string name;
  std::int64_t n, k;
  std::int64_t calls;  // layers that have it
  std::int64_t most_rows;
};

std::vector<Product> products(const model::ModelConfig& c, kernels::WeightFormat format) {
  constexpr std::int64_t kAny = std::int64_t{1} << 40;
  const std::int64_t h = c.hidden_size;
  const std::int64_t heads = static_cast<std::int64_t>(c.num_heads) * c.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(c.num_kv_heads) * c.head_dim;
  const std::int64_t values = c.value_channels();
  // Gates are apart where the rest is rounded to integers.
  const bool gates = format == kernels::WeightFormat::bf16;
  const std::int64_t recurrent =
      c.conv_channels() + values + (gates ? 2 * std::int64_t{c.linear_value_heads} : 0);
  return {
      {"recurrent in", recurrent, h, c.linear_layers(), kAny},
      {"attention in", 2 * heads + 2 * kv, h, c.full_layers(), kAny},
      {"recurrent out", h, values, c.linear_layers(), kAny},
      {"attention out", h, heads, c.full_layers(), kAny},
      {"gate and up", 2 * static_cast<std::int64_t>(c.intermediate_size), h, c.num_layers, kAny},
      {"down", h, c.intermediate_size, c.num_layers, kAny},
      {"head", c.vocab_size, h, 1, 8}};  // of the rows that somebody reads
}

constexpr std::array kFormats{kernels::WeightFormat::bf16, kernels::WeightFormat::int8,
                              kernels::WeightFormat::int4};

/// Enough matrices [n, k] to push each other out of the caches; all hold the same rows.
std::vector<kernels::PackedMatrix> matrices(std::int64_t n, std::int64_t k,
                                            kernels::WeightFormat format, std::size_t cold_bytes) {
  constexpr std::int64_t kRows = kernels::kPanelColumns;
  const std::vector<float> floats = some_floats(kRows * k);
  std::vector<Bf16> rows(floats.size());
  std::transform(floats.begin(), floats.end(), rows.begin(), to_bf16);
  std::vector<kernels::PackedMatrix> made;
  std::size_t bytes = 0;
  while (made.empty() || bytes + made[0].bytes() <= cold_bytes) {
    kernels::PackedMatrix& w = made.emplace_back(n, k, format);
    bytes += w.bytes();
    w.pack(0, std::min(kRows, n), rows.data());
    const std::span<std::byte> memory = w.memory();  // all panels are alike
    const std::size_t panel = memory.size() / static_cast<std::size_t>(w.panels());
    for (std::size_t at = panel; at < memory.size(); at += panel) {
      std::copy_n(memory.begin(), panel, memory.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return made;
}

class ProductBench {
 public:
  ProductBench(const KernelBench& on, const Product& product, kernels::WeightFormat format)
      : on_(on),
        product_(product),
        format_(format),
        copies_(matrices(product.n, product.k, format, on.arena.size())) {}

  void take_all(const TakeCase& take) {
    for (const std::int64_t rows : on_.rows) {
      if (rows > product_.most_rows) continue;
      ldx_ = product_.k + 16;
      x_ = some_floats(rows * ldx_);
      if (format_ == kernels::WeightFormat::bf16) {
        round(rows, take);
      } else {
        quantise(rows, take);
      }
      if (on_.wants("gemm")) multiply(rows, take);
    }
  }

 private:
  KernelCase named(const char* kernel, std::int64_t rows) const {
    KernelCase one;
    one.kernel = kernel;
    one.shape = std::string(kernels::to_string(format_)) + " " + product_.name + " " +
                std::to_string(product_.n) + "x" + std::to_string(product_.k);
    one.rows = rows;
    one.calls = product_.calls;
    return one;
  }

  /// Leaves the rounded rows for the products.
  void round(std::int64_t rows, const TakeCase& take) {
    const std::int64_t k = product_.k;
    rows_memory_ = kernels::HugeBuffer(kernels::RoundedRows::bytes(rows, k));
    rounded_ = kernels::RoundedRows::over({rows_memory_.data(), rows_memory_.size()}, rows, k);
    make_rows("round_rows", rows, take,
              [this](const float* x, std::int64_t begin, std::int64_t end) {
                on_.ops.round_rows(x, ldx_, begin, end, rounded_);
              });
  }

  /// Leaves the quantised rows for the products.
  void quantise(std::int64_t rows, const TakeCase& take) {
    const std::int64_t k = product_.k;
    rows_memory_ = kernels::HugeBuffer(kernels::QuantRows::bytes(rows, k, format_));
    quantised_ =
        kernels::QuantRows::over({rows_memory_.data(), rows_memory_.size()}, rows, k, format_);
    make_rows("quantise_rows", rows, take,
              [this](const float* x, std::int64_t begin, std::int64_t end) {
                on_.ops.quantise_rows(x, ldx_, begin, end, quantised_);
              });
  }

  /// make(x, begin, end) rounds these rows of x; `kernel` is what the case is called.
  template <class Make>
  void make_rows(const char* kernel, std::int64_t rows, const TakeCase& take, Make make) {
    KernelCase one = named(kernel, rows);
    one.bytes = static_cast<double>(4 * rows * product_.k);  // what it writes stays in a cache
    ColdArray x(rows * ldx_, on_);
    one.work = [&](std::int64_t round) {
      on_.split(rows, kernels::kRoundGrain,
                [&](std::int64_t begin, std::int64_t end) { make(x.at(round), begin, end); });
    };
    one.work(0);
    if (on_.wants(kernel)) take(one);
  }

  void multiply(std::int64_t rows, const TakeCase& take) {
    const std::int64_t ldy = product_.n + 16;
    std::vector<float> y(static_cast<std::size_t>(rows * ldy));
    const auto depth = static_cast<double>(product_.k);
    KernelCase one = named("gemm", rows);
    const bool integer = format_ != kernels::WeightFormat::bf16;
    one.arithmetic = integer ? Arithmetic::integer_products : Arithmetic::rounded_products;
    one.operations = 2 * depth * static_cast<double>(product_.n * rows);
    one.bytes = static_cast<double>(copies_[0].bytes()) +
                static_cast<double>(rows) *
                    ((integer ? 1 : 2) * depth + 4 * static_cast<double>(product_.n));
    one.work = [&, integer](std::int64_t round) {
      const kernels::PackedMatrix& w = copies_[static_cast<std::size_t>(round) % copies_.size()];
      kernels::split_product(
          on_.pool, w.panels(), rows,
          [&](std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
            float* const to = y.data() + begin * ldy;
            if (integer) {
              on_.ops.gemm_quantised(w, first, last, quantised_, begin, end - begin, to, ldy);
            } else {
              on_.ops.gemm_rounded(w, first, last, rounded_, begin, end - begin, to, ldy);
            }
          });
    };
    take(one);
  }

  const KernelBench& on_;
  const Product& product_;
  kernels::WeightFormat format_;
  std::vector<kernels::PackedMatrix> copies_;
  std::int64_t ldx_ = 0;
  std::vector<float> x_;
  kernels::HugeBuffer rows_memory_;
  kernels::QuantRows quantised_;
  kernels::RoundedRows rounded_;
};

void embed_cases(const KernelBench& on, kernels::WeightFormat format, const TakeCase& take) {
  const std::int64_t k = on.shape.hidden_size;
  const kernels::PackedMatrix w = std::move(matrices(on.shape.vocab_size, k, format, 0).front());
  for (const std::int64_t rows : on.rows) {
    std::vector<float> y(static_cast<std::size_t>(rows * k));
    KernelCase one;
    one.kernel = "embed";
    one.shape = std::string(kernels::to_string(format)) + " packed, width " + std::to_string(k);
    one.rows = rows;
    one.bytes = static_cast<double>(rows * k * 4) + static_cast<double>(rows) *
                                                        static_cast<double>(w.bytes()) /
                                                        static_cast<double>(w.n());
    one.work = [&](std::int64_t round) {
      on.split(rows, 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          on.ops.embed_packed(w, (round * rows + r) * kSomePrime % w.n(), y.data() + r * k);
        }
      });
    };
    take(one);
  }
}

}  // namespace

void product_cases(const KernelBench& on, const TakeCase& take) {
  for (const kernels::WeightFormat format : kFormats) {
    if (on.wants("embed")) embed_cases(on, format, take);
    const bool bf16 = format == kernels::WeightFormat::bf16;
    if (!on.wants("gemm") && !on.wants(bf16 ? "round_rows" : "quantise_rows")) continue;
    for (const Product& p : products(on.shape, format)) ProductBench(on, p, format).take_all(take);
  }
}

void sampling_cases(const KernelBench& on, const TakeCase& take) {
  const std::int64_t n = on.shape.vocab_size;
  ColdArray logits(n, on);
  KernelCase one;
  one.shape = "vocabulary " + std::to_string(n) + ", one thread";
  one.rows = 1;
  one.bytes = 4 * static_cast<double>(n);
  std::int64_t seen = 0;
  if (on.wants("argmax")) {
    one.kernel = "argmax";
    one.work = [&](std::int64_t round) { seen += on.ops.argmax(logits.at(round), n); };
    take(one);
  }
  if (on.wants("weigh")) {
    one.kernel = "weigh";
    kernels::WeightArgs args;
    args.max = 1.0F;
    args.from = -__builtin_inff();
    one.work = [&](std::int64_t round) {
      seen += static_cast<std::int64_t>(on.ops.weigh(logits.at(round), n, args, nullptr));
    };
    take(one);
  }
  if (on.wants("copy_state")) {
    const std::size_t bytes = model::cpu_memory_layout(on.shape, model::KvType::bf16).state_bytes;
    const auto floats = static_cast<std::int64_t>(bytes / sizeof(float));
    ColdArray states(2 * floats, on);  // one and where it goes
    one.kernel = "copy_state";
    one.shape = std::to_string(bytes) + " bytes";
    one.bytes = 2 * static_cast<double>(bytes);
    one.work = [&](std::int64_t round) {
      const auto* const from = reinterpret_cast<const std::byte*>(states.at(round));
      auto* const to = reinterpret_cast<std::byte*>(states.at(round) + floats);
      on.split(static_cast<std::int64_t>(bytes), kernels::kCopyGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
    };
    take(one);
  }
}

}  // namespace cairn::cli
