// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/rope.hpp"

#include "base/check.hpp"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

constexpr float kEps = 1e-6F;
constexpr std::int64_t kLayerOffset = 96;
constexpr std::uint16_t kUnwritten = 0xffff;

struct RopeShape {
  std::int32_t heads, kv_heads, head_dim, rotary_dim;
  std::int64_t q_width() const { return std::int64_t{2} * heads * head_dim; }  // with gates
  std::int64_t kv_width() const { return static_cast<std::int64_t>(kv_heads) * head_dim; }
  std::int64_t ld() const { return q_width() + 2 * kv_width() + 8; }
  std::int64_t block_bytes() const { return kLayerOffset + 2 * kv_width() * 16 * 2; }
};
constexpr RopeShape kSmall{4, 2, 32, 8};
constexpr RopeShape kLarge{8, 2, 256, 64};

/// Sequence s has the blocks s, s + kSequences, ...
constexpr std::int32_t kSequences = 3;
constexpr std::int32_t kBlocks = 30;  // of each sequence
constexpr std::int32_t kPositions = 16 * kBlocks;

/// Rows of a packed batch; positions of a sequence need not follow each other.
struct RopeRows {
  RopeRows(RopeShape shape_, std::vector<std::int32_t> sequence_,
           std::vector<std::int32_t> positions_)
      : shape(shape_), sequence(std::move(sequence_)), positions(std::move(positions_)) {
    Random random(static_cast<std::uint32_t>(shape.head_dim));
    q_norm = random.floats(shape.head_dim, -0.5F, 0.5F);
    k_norm = random.floats(shape.head_dim, -0.5F, 0.5F);
    for (const float angle : random.floats(kPositions * shape.rotary_dim / 2, 0.0F, 6.3F)) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    projected = random.floats(rows() * shape.ld(), -3.0F, 3.0F);
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(positions.size()); }

  RopeShape shape;
  std::vector<std::int32_t> sequence, positions;
  Floats projected, q_norm, k_norm;
  Floats cos, sin;  // of every position
};

struct Written {
  std::vector<std::uint16_t> q, pool;
  bool operator==(const Written&) const = default;
};

template <class Element>
std::vector<std::uint16_t> bits_of(const Buffer<Element>& buffer) {
  std::vector<std::uint16_t> bits;
  for (const Element value : buffer.read()) bits.push_back(value.bits);
  return bits;
}

template <class Element>
Written run(const RopeRows& r) {
  std::vector<std::int32_t> tables;
  for (std::int32_t s = 0; s < kSequences; ++s) {
    for (std::int32_t b = 0; b < kBlocks; ++b) tables.push_back(s + b * kSequences);
  }
  const Buffer<float> projected(r.projected), q_norm(r.q_norm), k_norm(r.k_norm), cos(r.cos),
      sin(r.sin);
  const Buffer<std::int32_t> device_tables(tables), sequence(r.sequence), positions(r.positions);
  Buffer<Element> q(at(r.rows() * r.shape.heads * r.shape.head_dim));
  Buffer<Element> pool(at(kSequences * kBlocks * r.shape.block_bytes() / 2));
  QkRopeArgs<Element> args;
  args.q = projected.data();
  args.q_head_stride = 2 * r.shape.head_dim;
  args.k = projected.data() + r.shape.q_width();
  args.v = args.k + r.shape.kv_width();
  args.ld = r.shape.ld();
  args.q_norm = q_norm.data();
  args.k_norm = k_norm.data();
  args.eps = kEps;
  args.cos = cos.data();
  args.sin = sin.data();
  args.rotary_dim = r.shape.rotary_dim;
  args.sequence = sequence.data();
  args.positions = positions.data();
  args.rows = r.rows();
  args.heads = r.shape.heads;
  args.kv.pool = reinterpret_cast<std::byte*>(pool.data());
  args.kv.block_bytes = r.shape.block_bytes();
  args.kv.layer_offset = kLayerOffset;
  args.kv.tables = device_tables.data();
  args.kv.table_stride = kBlocks;
  args.kv.kv_heads = r.shape.kv_heads;
  args.kv.head_dim = r.shape.head_dim;
  args.q_out = q.data();
  qk_rope(nullptr, args);
  return {bits_of(q), bits_of(pool)};
}

std::uint16_t bits_of(float x, Bf16) { return to_bf16(x).bits; }
std::uint16_t bits_of(float x, F16) { return to_f16(x).bits; }

/// The CPU kernels, then rounding; everything else stays unwritten.
template <class Element>
Written by_cpu(const RopeRows& r) {
  const RopeShape& s = r.shape;
  const std::int64_t half = s.rotary_dim / 2;
  Written w;
  w.pool.assign(at(kSequences * kBlocks * s.block_bytes() / 2), kUnwritten);
  w.q.assign(at(r.rows() * s.heads * s.head_dim), kUnwritten);
  for (std::int64_t row = 0; row < r.rows(); ++row) {
    const std::int32_t position = r.positions[at(row)];
    if (position < 0) continue;
    const float* from = r.projected.data() + row * s.ld();
    const float* v = from + s.q_width() + s.kv_width();
    const float* cos = r.cos.data() + position * half;
    const float* sin = r.sin.data() + position * half;
    Floats q(at(s.q_width() / 2)), k(at(s.kv_width()));
    cpu().norm_rope(from, 2 * s.head_dim, s.heads, s.head_dim, r.q_norm.data(), kEps, cos, sin,
                    s.rotary_dim, q.data(), s.head_dim);
    cpu().norm_rope(from + s.q_width(), s.head_dim, s.kv_heads, s.head_dim, r.k_norm.data(), kEps,
                    cos, sin, s.rotary_dim, k.data(), s.head_dim);
    for (std::size_t i = 0; i < q.size(); ++i) {
      w.q[at(row) * q.size() + i] = bits_of(q[i], Element{});
    }
    const std::int64_t block = r.sequence[at(row)] + position / 16 * kSequences;
    for (std::int64_t i = 0; i < s.kv_width(); ++i) {
      const std::int64_t to = (block * s.block_bytes() + kLayerOffset) / 2 +
                              (i / s.head_dim * 16 + position % 16) * s.head_dim + i % s.head_dim;
      w.pool[at(to)] = bits_of(k[at(i)], Element{});
      w.pool[at(to + s.kv_width() * 16)] = bits_of(v[i], Element{});
    }
  }
  return w;
}

template <class Element>
void check_rows(const RopeRows& r) {
  const Written got = run<Element>(r);
  const Written want = by_cpu<Element>(r);
  REQUIRE((got.q == want.q));  // as one value: a failure need not print them
  REQUIRE((got.pool == want.pool));
}

}  // namespace

TEST_CASE("qk_rope has the bits of the CPU kernels and writes the rows' slots only") {
  for (const RopeShape shape : {kSmall, kLarge}) {
    check_rows<Bf16>({shape, {1, 1, 1, 0, 2, 2}, {15, 16, 17, 0, 63, 64}});
    check_rows<F16>({shape, {2, 0}, {79, 31}});
    check_rows<Bf16>({shape, {0}, {5}});
    check_rows<Bf16>({shape, {}, {}});
  }
}

TEST_CASE("qk_rope sums squares in the CPU's order") {
  // A last place of the sum turns the rounding of one value in some thousands.
  std::vector<std::int32_t> sequence, positions;
  for (std::int32_t row = 0; row < kSequences * kBlocks * 16; ++row) {
    sequence.push_back(row % kSequences);
    positions.push_back(row / kSequences);
  }
  check_rows<F16>({kSmall, sequence, positions});
}

TEST_CASE("qk_rope takes any number of heads") {
  for (const std::int32_t heads : {1, 3, 27, 28, 29}) {
    check_rows<Bf16>({{heads, 1, 32, 8}, {0, 1, 2}, {3, 40, 7}});
  }
  check_rows<Bf16>({{24, 4, 256, 64}, {0, 2}, {3, 40}});
}

TEST_CASE("qk_rope leaves padding rows alone") {
  check_rows<Bf16>({kSmall, {0, -1, 1, -1}, {3, -1, 4, -1}});
}

TEST_CASE("a row of qk_rope does not depend on the rows beside it") {
  const RopeRows all(kLarge, {0, 1, 2}, {3, 40, 7});
  const Written together = run<Bf16>(all);
  for (std::size_t i = 0; i < 3; ++i) {
    RopeRows one(kLarge, {all.sequence[i]}, {all.positions[i]});
    const auto begin = static_cast<std::ptrdiff_t>(i * one.projected.size());
    std::copy_n(all.projected.begin() + begin, one.projected.size(), one.projected.begin());
    const Written alone = run<Bf16>(one);
    REQUIRE(std::equal(alone.q.begin(), alone.q.end(),
                       together.q.begin() + static_cast<std::ptrdiff_t>(i * alone.q.size())));
    for (std::size_t j = 0; j < alone.pool.size(); ++j) {
      if (alone.pool[j] != kUnwritten) REQUIRE(alone.pool[j] == together.pool[j]);
    }
  }
}

TEST_CASE("qk_rope refuses shapes that no kernel takes") {
  const auto refuses = [](auto change) {
    QkRopeArgs<Bf16> args;
    args.kv.head_dim = 256;
    args.rotary_dim = 64;
    change(args);
    REQUIRE_THROWS_AS(qk_rope(nullptr, args), InvariantError);
  };
  refuses([](auto& a) { a.rotary_dim = 32; });
  refuses([](auto& a) { a.kv.head_dim = 128; });
  refuses([](auto& a) { a.ld = 6; });
  refuses([](auto& a) { a.q_head_stride = 2; });
  refuses([](auto& a) { a.kv.block_bytes = 8; });
  refuses([](auto& a) { a.kv.layer_offset = 8; });
}

TEST_CASE("qk_rope starts four lanes a head") {
  QkRopeArgs<Bf16> args;
  args.heads = 8;
  args.kv.kv_heads = 2;
  for (const auto& [rows, blocks] :
       {std::pair<std::int64_t, std::int64_t>{0, 0}, {1, 1}, {2, 1}, {3, 2}, {8, 3}, {9, 4}}) {
    args.rows = rows;
    REQUIRE(qk_rope_grid(args) == Grid{blocks});
  }
}

TEST_CASE("qk_rope moves the least bytes in whole sectors") {
  const RopeRows r(kLarge, {0, 0, 0, 0, 0, 0, 0, 0}, {8, 9, 10, 11, 12, 13, 14, 15});
  Counting counting;
  run<Bf16>(r);
  const Counters counted = counting.of("qk_rope");
  const std::int64_t rows = r.rows();
  const std::int64_t outputs = rows * (8 + 2 + 2) * 256;
  REQUIRE(counted.stores.bytes == 2 * outputs);
  REQUIRE(counted.stores.efficiency() == 1.0);
  // A warp holds eight heads, so norms and angles are asked for again, from the cache, once or
  // twice for the eight; positions, sequences and tables are 4 bytes of a sector.
  const std::int64_t warps = rows * (8 + 2 + 2) / 8;
  REQUIRE(32 * counted.loads.sectors <= 4 * outputs + warps * (2 * 256 * 4 + 2 * 64 * 4 + 3 * 32));
  REQUIRE(counted.loads.efficiency() >= 0.9);
}

}  // namespace cairn::kernels::cuda::testing
