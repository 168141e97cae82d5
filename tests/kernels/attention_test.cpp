// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "kernels/cpu/thread_pool.hpp"
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr std::size_t kLayerOffset = 192;  // a layer before ours

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
            s += static_cast<double>(q[at(t * width * group + h * dim + d)]) *
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
      const Context c(random, s.type, s.kv_heads, s.group, s.head_dim, tokens);
      const std::int64_t begin = std::max<std::int64_t>(0, tokens - 3);
      const Floats got =
          same_at_every_level([&](const Ops& o) { return c.run(o, begin, {tokens}); });
      REQUIRE(worst_error(got, c.reference(begin), 0.05) < 1e-5);
    }
  }
}

TEST_CASE("a row's bits do not depend on the chunk it came in") {
  Random random(41);
  for (const Shape s : {kShapes[1], kShapes[4]}) {
    const Context c(random, s.type, s.kv_heads, s.group, s.head_dim, 1100);
    for (const Isa isa : supported_isas()) {
      INFO(to_string(isa) << " head_dim " << s.head_dim);
      const Ops& o = ops(isa);
      const Floats whole = c.run(o, 0, {1100});
      std::vector<std::int64_t> cuts;
      for (std::int64_t t = 0; t < 1100; t += 1 + random.below(90)) cuts.push_back(t);
      cuts.push_back(1100);
      REQUIRE(same_bits(whole, c.run(o, 0, cuts)));
      const Floats tail = c.run(o, 1024 - 30, {1000, 1001, 1024, 1025, 1100});
      REQUIRE(same_bits(tail.data(), whole.data() + (1024 - 30) * c.width * c.group,
                        static_cast<std::int64_t>(tail.size())));
      std::vector<std::int64_t> each;
      for (std::int64_t t = 1; t <= 1100; ++t) each.push_back(t);
      if (isa != Isa::portable) REQUIRE(same_bits(whole, c.run(o, 0, each)));
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
