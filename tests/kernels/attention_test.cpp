// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "kernels/cpu/flush_denormals.hpp"
#include "kernels/cpu/shared.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr std::size_t kLayerOffset = 192;  // a layer before ours

/// Everything that may compute attention here, whichever is preferred.
std::vector<Ops> all_tables() {
  std::vector<Ops> tables;
  for (const Isa isa : supported_isas()) tables.push_back(ops(isa));
  if (isa_supported(Isa::avx512)) tables.push_back(shared::kAvx512);
  if (bf16_dot_supported()) {
    tables.push_back(shared::kAvx512);
    tables.back().attention = shared::attention_dot;
    tables.back().attention_range = shared::attention_range_dot;
  }
  return tables;
}

/// What fn(ops) gives with each of them, which is required to be the same.
template <class Fn>
Floats same_from_all(const Fn& fn) {
  Floats first;
  int table = 0;
  for (const Ops& o : all_tables()) {
    INFO("table " << table << ", " << to_string(o.isa));
    Floats got = fn(o);
    if (table++ == 0) {
      first = std::move(got);
    } else {
      REQUIRE(same_bits(got, first));
    }
  }
  return first;
}

/// Keys and values of a sequence, stored in blocks that lie in shuffled order; everything not
/// stored is NaN.
struct Context {
  Context(Random& random, KvType type, std::int32_t kv_heads, std::int32_t group_,
          std::int32_t head_dim, std::int64_t tokens_)
      : layout{type, kv_heads, head_dim}, group(group_), tokens(tokens_) {
    width = static_cast<std::int64_t>(kv_heads) * head_dim;
    k = random.floats(tokens * width);
    v = random.floats(tokens * width);
    q = random.floats(tokens * width * group, -2.0F, 2.0F);
    fill(random);
  }

  void fill(Random& random) {
    const std::int64_t count = (tokens + 15) / 16;
    const std::size_t bytes = kLayerOffset + layout.layer_bytes() + 64;
    memory = HugeBuffer(bytes * at(count));
    std::memset(memory.data(), 0xff, memory.size());  // NaN in both types
    std::vector<std::int64_t> order(at(count));
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t i = count - 1; i > 0; --i) {
      std::swap(order[at(i)], order[at(random.below(i + 1))]);
    }
    blocks.clear();
    for (std::int64_t b = 0; b < count; ++b) {
      blocks.push_back(memory.data() + bytes * at(order[at(b)]));
    }
    for (std::int64_t t = 0; t < tokens; ++t) store(t);
  }
  void store(std::int64_t t) {
    ops(Isa::portable)
        .kv_store(layout, const_cast<std::byte*>(blocks[at(t / 16)]) + kLayerOffset,
                  static_cast<std::int32_t>(t % 16), k.data() + t * width, v.data() + t * width);
  }

  AttentionArgs args(std::int32_t head, std::int64_t begin, std::int64_t end) const {
    AttentionArgs a;
    a.layout = layout;
    a.kv_head = head;
    a.group = group;
    a.rows = static_cast<std::int32_t>(end - begin);
    a.position = begin;
    a.blocks = blocks.data();
    a.layer_offset = kLayerOffset;
    a.activations = activations;
    a.scale = 1.0F / std::sqrt(static_cast<float>(layout.head_dim));
    a.ldq = a.ldo = width * group;
    a.q = q.data() + begin * a.ldq + static_cast<std::int64_t>(head) * group * layout.head_dim;
    return a;
  }

  /// Outputs of rows [begin, tokens) with the rows cut at `cuts` (the last cut is `tokens`).
  Floats run(const Ops& o, std::int64_t begin, const std::vector<std::int64_t>& cuts) const {
    Floats out(at((tokens - begin) * width * group));
    std::int64_t from = begin;
    for (const std::int64_t to : cuts) {
      HugeBuffer scratch(at(attention_scratch(to - from, group, layout.head_dim)) * sizeof(float));
      std::memset(scratch.data(), 0xff, scratch.size());
      for (std::int32_t h = 0; h < layout.kv_heads && to > from; ++h) {
        AttentionArgs a = args(h, from, to);
        a.o = out.data() + (from - begin) * a.ldo +
              static_cast<std::int64_t>(h) * group * layout.head_dim;
        a.scratch = reinterpret_cast<float*>(scratch.data());
        o.attention(a);
      }
      from = to;
    }
    return out;
  }

  float rounded(float x) const { return layout.type == KvType::bf16 ? to_float(to_bf16(x)) : x; }
  bool rounds() const { return layout.type == KvType::bf16 && activations == Activations::bf16; }
  float factor(float x) const { return rounds() ? to_float(to_bf16(x)) : x; }

  std::vector<double> reference(std::int64_t begin) const {
    std::vector<double> out;
    const std::int64_t dim = layout.head_dim;
    for (std::int64_t t = begin; t < tokens; ++t) {
      for (std::int64_t h = 0; h < layout.kv_heads * group; ++h) {
        const std::int64_t kv = h / group * dim;
        std::vector<double> p;
        double top = -1e300, sum = 0;
        for (std::int64_t j = 0; j <= t; ++j) {
          double s = 0;
          for (std::int64_t d = 0; d < dim; ++d) {
            s += static_cast<double>(factor(q[at(t * width * group + h * dim + d)])) *
                 static_cast<double>(rounded(k[at(j * width + kv + d)]));
          }
          p.push_back(s / std::sqrt(static_cast<double>(dim)));
          top = std::max(top, p.back());
        }
        for (double& x : p) sum += x = std::exp(x - top);
        for (std::int64_t d = 0; d < dim; ++d) {
          double o = 0;
          for (std::int64_t j = 0; j <= t; ++j) {
            o += p[at(j)] * static_cast<double>(rounded(v[at(j * width + kv + d)]));
          }
          out.push_back(o / sum);
        }
      }
    }
    return out;
  }

  KvLayout layout;
  Activations activations = Activations::bf16;
  std::int32_t group;
  std::int64_t tokens, width;
  Floats k, v, q;
  HugeBuffer memory;
  std::vector<const std::byte*> blocks;
};

struct Shape {
  KvType type;
  std::int32_t kv_heads, group, head_dim;
};
constexpr Shape kShapes[] = {{KvType::bf16, 2, 4, 256}, {KvType::f32, 1, 2, 32},
                             {KvType::bf16, 1, 1, 16},  {KvType::bf16, 1, 6, 64},
                             {KvType::f32, 2, 3, 22},   {KvType::bf16, 1, 5, 70}};

}  // namespace

TEST_CASE("attention agrees with an fp64 softmax over the stored keys, at every shape and level") {
  Random random(40);
  for (const Shape s : kShapes) {
    for (const std::int64_t tokens : {1, 2, 16, 17, 64, 65, 513, 600, 1030}) {
      INFO("head_dim " << s.head_dim << " group " << s.group << " tokens " << tokens);
      Context c(random, s.type, s.kv_heads, s.group, s.head_dim, tokens);
      const std::int64_t begin = std::max<std::int64_t>(0, tokens - 3);
      for (const Activations activations : {Activations::bf16, Activations::fp32}) {
        c.activations = activations;
        const Floats got = same_from_all([&](const Ops& o) { return c.run(o, begin, {tokens}); });
        const std::vector<double> want = c.reference(begin);
        if (c.rounds()) {  // weights off by at most 2^-9 each, values below 1
          REQUIRE(worst_error(got, want, 1.0) < 0x1p-8);
        } else {
          REQUIRE(worst_error(got, want, 0.05) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE(
    "each sum of attention over bf16 keys takes pairs in ascending order, the odd one first") {
  Random random(47);
  constexpr std::int64_t kTokens = 111;  // a whole tile, and one with half a pair
  constexpr std::int32_t kDim = 48;
  Context c(random, KvType::bf16, 1, 1, kDim, kTokens);
  const auto sum_of_pairs = [](std::int64_t n, float sum, const auto& product) {
    for (std::int64_t i = 0; i < n; i += 2) {
      sum = i + 1 < n ? product(i + 1, sum) : std::fmaf(0.0F, 0.0F, sum);
      sum = product(i, sum);
    }
    return sum;
  };
  for (const Activations activations : {Activations::bf16, Activations::fp32}) {
    c.activations = activations;
    Floats want(kDim, 0.0F);
    {
      const FlushDenormals flush;
      const float* const q = c.q.data() + (kTokens - 1) * kDim;
      float top = -kInfinity;
      float denominator = 0;
      for (std::int64_t tile = 0; tile < kTokens; tile += 64) {
        const std::int64_t live = std::min<std::int64_t>(64, kTokens - tile);
        const float* const k = c.k.data() + tile * kDim;
        const float* const v = c.v.data() + tile * kDim;
        Floats p(64, 0.0F);
        const float before = top;
        for (std::int64_t j = 0; j < live; ++j) {
          p[at(j)] = sum_of_pairs(kDim, 0, [&](std::int64_t d, float sum) {
            return std::fmaf(c.factor(q[d]), c.rounded(k[j * kDim + d]), sum);
          });
          p[at(j)] *= c.args(0, 0, 1).scale;
          top = std::max(top, p[at(j)]);
        }
        for (std::int64_t j = 0; j < live; ++j) p[at(j)] = c.factor(exp_f32(p[at(j)] - top));
        float lane[16];
        for (std::size_t i = 0; i < 16; ++i) lane[i] = (p[i] + p[i + 16]) + (p[i + 32] + p[i + 48]);
        for (std::size_t n = 8; n > 0; n /= 2) {
          for (std::size_t i = 0; i < n; ++i) lane[i] += lane[i + n];
        }
        const float rescale = exp_f32(before - top);
        denominator = std::fmaf(denominator, rescale, lane[0]);
        for (std::int64_t d = 0; d < kDim; ++d) {
          want[at(d)] = sum_of_pairs(live, want[at(d)] * rescale, [&](std::int64_t j, float sum) {
            return std::fmaf(p[at(j)], c.rounded(v[j * kDim + d]), sum);
          });
        }
      }
      for (float& x : want) x *= 1.0F / denominator;
    }
    const Floats got =
        same_from_all([&](const Ops& o) { return c.run(o, kTokens - 1, {kTokens}); });
    REQUIRE(same_bits(got, want));
  }
}

TEST_CASE("denormals count as zero in attention, whatever computes it") {
  Random random(48);
  Context c(random, KvType::bf16, 1, 2, 32, 75);
  for (const float size : {0x1p-127F, 0x1p-120F}) {
    for (float& x : c.v) x *= size;
    c.fill(random);
    for (const Activations activations : {Activations::bf16, Activations::fp32}) {
      c.activations = activations;
      const Floats got = same_from_all([&](const Ops& o) { return c.run(o, 70, {75}); });
      const bool zero = std::all_of(got.begin(), got.end(), [](float x) { return x == 0; });
      REQUIRE(zero == (size < 0x1p-126F));
    }
    for (float& x : c.v) x /= size;
  }
}

TEST_CASE("a row's bits do not depend on the chunk it came in") {
  Random random(41);
  for (const Shape s : {kShapes[4], kShapes[5]}) {
    for (const Isa isa : supported_isas()) {
      // Plain C++ takes the last rows only.
      const bool slow = isa == Isa::portable;
      const std::int64_t tokens = slow ? 590 : 1100;
      const std::int64_t begin = slow ? 470 : 0;
      const Context c(random, s.type, s.kv_heads, s.group, s.head_dim, tokens);
      INFO(to_string(isa) << " head_dim " << s.head_dim);
      const Ops& o = ops(isa);
      const Floats whole = c.run(o, begin, {tokens});
      std::vector<std::int64_t> cuts;
      for (std::int64_t t = begin; t < tokens; t += 1 + random.below(90)) cuts.push_back(t);
      cuts.push_back(tokens);
      REQUIRE(same_bits(whole, c.run(o, begin, cuts)));
      const Floats tail = c.run(o, 512 - 30, {500, 501, 512, 513, tokens});
      REQUIRE(same_bits(tail.data(), whole.data() + (512 - 30 - begin) * c.width * c.group,
                        static_cast<std::int64_t>(tail.size())));
      std::vector<std::int64_t> each;
      for (std::int64_t t = begin + 1; t <= tokens; ++t) each.push_back(t);
      if (!slow) REQUIRE(same_bits(whole, c.run(o, begin, each)));
    }
  }
}

TEST_CASE("where blocks lie changes nothing") {
  Random random(42);
  Context c(random, KvType::bf16, 2, 4, 256, 150);
  const Ops& o = ops(detect_isa());
  const Floats first = c.run(o, 100, {150});
  c.fill(random);
  REQUIRE(same_bits(first, c.run(o, 100, {150})));
}

TEST_CASE("slots past the row's end never reach it, whatever they hold") {
  Random random(43);
  for (const Shape s : kShapes) {
    Context full(random, s.type, s.kv_heads, s.group, s.head_dim, 90);
    for (const Isa isa : supported_isas()) {
      const Floats rows = full.run(ops(isa), 0, {90});
      for (const std::int64_t tokens : {1, 15, 16, 33, 64, 66}) {
        Context prefix(random, s.type, s.kv_heads, s.group, s.head_dim, tokens);
        std::copy_n(full.k.begin(), prefix.k.size(), prefix.k.begin());
        std::copy_n(full.v.begin(), prefix.v.size(), prefix.v.begin());
        std::copy_n(full.q.begin(), prefix.q.size(), prefix.q.begin());
        prefix.fill(random);  // slots after the end are NaN here, real keys in `full`
        const Floats alone = prefix.run(ops(isa), 0, {tokens});
        REQUIRE(same_bits(alone.data(), rows.data(), static_cast<std::int64_t>(alone.size())));
      }
    }
  }
}

TEST_CASE("ranges computed apart and combined have the bits of one call") {
  Random random(44);
  for (const Shape s : {kShapes[0], kShapes[4]}) {
    for (const std::int64_t tokens : {1, 512, 513, 1600}) {
      const Context c(random, s.type, s.kv_heads, s.group, s.head_dim, tokens);
      for (const Isa isa : supported_isas()) {
        INFO(to_string(isa) << " tokens " << tokens);
        const Floats want = c.run(ops(isa), tokens - 1, {tokens});
        Floats got(want.size());
        const std::int64_t ranges = (tokens + 511) / 512;
        const std::int64_t size = s.group * attention_partial_size(s.head_dim);
        ThreadPool pool(2);
        for (std::int32_t h = 0; h < s.kv_heads; ++h) {
          AttentionArgs a = c.args(h, tokens - 1, tokens);
          a.o = got.data() + static_cast<std::int64_t>(h) * s.group * s.head_dim;
          HugeBuffer partials(at(ranges * size) * sizeof(float));
          auto* p = reinterpret_cast<float*>(partials.data());
          pool.run(ranges, [&](std::int64_t r) {
            HugeBuffer scratch(at(attention_scratch(1, s.group, s.head_dim)) * sizeof(float));
            AttentionArgs mine = a;
            mine.scratch = reinterpret_cast<float*>(scratch.data());
            ops(isa).attention_range(mine, r, p + r * size);
          });
          ops(isa).attention_combine(a, ranges, p);
        }
        REQUIRE(same_bits(got, want));
      }
    }
  }
}

TEST_CASE("scores far apart neither overflow nor lose the largest") {
  Random random(45);
  Context c(random, KvType::f32, 1, 1, 16, 700);
  for (float& x : c.q) x *= 3000.0F;
  c.fill(random);
  const Floats got = same_at_every_level([&](const Ops& o) { return c.run(o, 695, {700}); });
  REQUIRE(worst_error(got, c.reference(695), 0.5) < 2e-3);  // exp of rounded scores near 1e4
}

TEST_CASE("copied slots attend like the originals and the others stay") {
  Random random(46);
  for (const Shape s : kShapes) {
    Context c(random, s.type, s.kv_heads, s.group, s.head_dim, 16);
    std::vector<std::byte> to(c.layout.layer_bytes(), std::byte{0x5a});
    const std::byte* from = c.blocks[0] + kLayerOffset;
    for (const std::int32_t live : {0, 1, 7, 16}) {
      std::fill(to.begin(), to.end(), std::byte{0x5a});
      copy_kv_slots(c.layout, from, to.data(), live);
      // A block with only those slots stored says what the copy must be.
      std::vector<std::byte> want(to.size(), std::byte{0x5a});
      for (std::int32_t t = 0; t < live; ++t) {
        ops(Isa::portable)
            .kv_store(c.layout, want.data(), t, c.k.data() + t * c.width, c.v.data() + t * c.width);
      }
      REQUIRE(to == want);
    }
  }
}

}  // namespace cairn::kernels::testing
