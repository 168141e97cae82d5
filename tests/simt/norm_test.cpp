// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norm.hpp"

#include "base/check.hpp"
#include "tests/simt/kernels.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

constexpr float kEps = 1e-6F;

/// Sum of squares where thread t of `threads` takes the groups t, t + threads, ... of four values.
float sum_squares(const float* x, std::int64_t n, std::size_t threads) {
  Floats sums(threads, 0.0F);
  for (std::int64_t i = 0; i < n; ++i) {
    float& sum = sums[at(i / 4) % threads];
    sum = std::fma(x[i], x[i], sum);
  }
  Floats warps;
  for (std::size_t w = 0; w < threads; w += 32) {
    const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(w);
    warps.push_back(fold(
        Floats(begin, begin + static_cast<std::ptrdiff_t>(std::min(threads, std::size_t{32})))));
  }
  return fold(warps);
}

struct Row {
  Floats x, y;  // the stream afterwards, and its norm
};

Row add_norm_in_order(Floats x, const float* update, const Floats& w) {
  const auto n = static_cast<std::int64_t>(x.size());
  if (update != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) x[at(i)] = x[at(i)] + update[i];
  }
  const float scale =
      1.0F / std::sqrt(sum_squares(x.data(), n, 256) / static_cast<float>(n) + kEps);
  Floats y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] * scale) * (1.0F + w[i]);
  return {std::move(x), std::move(y)};
}

struct Result {
  Floats x, y;
};

template <class Out>
Result run_add_norm(const Floats& x, const Floats& update, const Floats& w, std::int64_t rows) {
  Buffer<float> device_x(x);
  const Buffer<float> device_update(update);
  const Buffer<float> device_w(w);
  Buffer<Out> y(x.size());
  AddRmsNormArgs<Out> args;
  args.x = device_x.data();
  args.update = update.empty() ? nullptr : device_update.data();
  args.w = device_w.data();
  args.eps = kEps;
  args.rows = rows;
  args.width = static_cast<std::int64_t>(w.size());
  args.y = y.data();
  add_rms_norm(nullptr, args);
  return {device_x.read(), as_floats(y.read())};
}

struct GatedCase {
  std::int64_t tokens;
  std::int32_t heads, head_dim;
  Floats o, z, w;
  std::int64_t ld() const { return static_cast<std::int64_t>(heads) * head_dim + 8; }
};

GatedCase gated_case(std::int64_t tokens, std::int32_t heads, std::int32_t head_dim) {
  Random random(static_cast<std::uint32_t>(heads * 1000 + head_dim));
  GatedCase c{tokens, heads, head_dim, {}, {}, random.floats(head_dim)};
  c.o = random.floats(tokens * heads * head_dim, -2.0F, 2.0F);
  c.z = random.floats(tokens * c.ld(), -9.0F, 9.0F);
  return c;
}

template <class Out>
Floats run_gated(const GatedCase& c) {
  const Buffer<float> o(c.o), z(c.z), w(c.w);
  Buffer<Out> y(c.o.size());
  gated_norm<Out>(nullptr, {o.data(), z.data(), c.ld(), w.data(), kEps, c.tokens, c.heads,
                            c.head_dim, y.data()});
  return as_floats(y.read());
}

}  // namespace

TEST_CASE("add_rms_norm adds and norms in the documented order, at every tile edge") {
  constexpr std::int64_t rows = 2;
  for (const std::int64_t n : {4, 64, 1020, 1024, 1028, 2044, 2048, 2052, 4096, 4100, 5120, 8192}) {
    Random random(static_cast<std::uint32_t>(n));
    const Floats x = random.floats(rows * n, -3.0F, 3.0F);
    const Floats w = random.floats(n, -0.5F, 0.5F);
    for (const bool with_update : {false, true}) {
      const Floats update = with_update ? random.floats(rows * n) : Floats();
      const Result got = run_add_norm<float>(x, update, w, rows);
      const Result narrow = run_add_norm<Bf16>(x, update, w, rows);
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto row = [&](const Floats& v) {
          return Floats(v.begin() + r * n, v.begin() + (r + 1) * n);
        };
        const Row want =
            add_norm_in_order(row(x), with_update ? update.data() + r * n : nullptr, w);
        REQUIRE(same_bits(row(got.x), want.x));
        REQUIRE(same_bits(row(got.y), want.y));
        REQUIRE(same_bits(row(narrow.x), want.x));
        REQUIRE(same_bits(row(narrow.y), rounded<Bf16>(want.y)));
      }
    }
  }
}

TEST_CASE("add_rms_norm agrees with the CPU kernels up to the order of its sum") {
  Random random(60);
  constexpr std::int64_t rows = 4, n = 1024;
  const Floats x = random.floats(rows * n, -3.0F, 3.0F), update = random.floats(rows * n);
  const Floats w = random.floats(n, -0.5F, 0.5F);
  Floats want_x = x, want_y(x.size());
  cpu().residual_add(want_x.data(), update.data(), rows * n);
  cpu().rms_norm(want_x.data(), n, rows, n, w.data(), kEps, want_y.data(), n);
  const Result got = run_add_norm<float>(x, update, w, rows);
  REQUIRE(same_bits(got.x, want_x));
  REQUIRE(worst_error(got.y, want_y, 1e-6) < 1e-6);
}

TEST_CASE("a row's norm does not depend on the rows beside it") {
  Random random(61);
  constexpr std::int64_t rows = 5, n = 1028;
  const Floats x = random.floats(rows * n), update = random.floats(rows * n), w = random.floats(n);
  const Result all = run_add_norm<float>(x, update, w, rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = [&](const Floats& v) {
      return Floats(v.begin() + r * n, v.begin() + (r + 1) * n);
    };
    const Result alone = run_add_norm<float>(row(x), row(update), w, 1);
    REQUIRE(same_bits(alone.x, row(all.x)));
    REQUIRE(same_bits(alone.y, row(all.y)));
  }
}

TEST_CASE("chosen rows have the norm they have among all, and leave the stream alone") {
  Random random(62);
  constexpr std::int64_t rows = 5, n = 1028;
  const Floats x = random.floats(rows * n), update = random.floats(rows * n), w = random.floats(n);
  const Result all = run_add_norm<float>(x, update, w, rows);
  const std::vector<std::int32_t> chosen{3, 0, 3};
  const Buffer<float> device_update(update), device_w(w);
  const Buffer<std::int32_t> from(chosen);
  Buffer<float> device_x(x), y(at(3 * n));
  add_rms_norm<float>(nullptr, {device_x.data(), device_update.data(), device_w.data(), kEps, 3, n,
                                y.data(), from.data()});
  REQUIRE(same_bits(device_x.read(), x));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto row = [](const Floats& v, std::int64_t r) {
      return Floats(v.begin() + r * n, v.begin() + (r + 1) * n);
    };
    REQUIRE(same_bits(row(y.read(), static_cast<std::int64_t>(i)), row(all.y, chosen[i])));
  }
}

TEST_CASE("gated_norm norms each head in the documented order") {
  for (const std::int32_t head_dim : {16, 128}) {
    for (const std::int32_t heads : {1, 3, 4, 16, 31, 33}) {
      const GatedCase c = gated_case(3, heads, head_dim);
      Floats want(c.o.size());
      for (std::int64_t i = 0; i < 3 * heads; ++i) {
        const float* o = c.o.data() + i * head_dim;
        const float* z = c.z.data() + i / heads * c.ld() + i % heads * head_dim;
        const float mean =
            sum_squares(o, head_dim, at(head_dim / 4)) / static_cast<float>(head_dim);
        const float scale = 1.0F / std::sqrt(mean + kEps);
        for (std::int64_t j = 0; j < head_dim; ++j) {
          want[at(i * head_dim + j)] = ((o[j] * scale) * c.w[at(j)]) * (z[j] * sigmoid_f32(z[j]));
        }
      }
      REQUIRE(same_bits(run_gated<float>(c), want));
      REQUIRE(same_bits(run_gated<Bf16>(c), rounded<Bf16>(want)));
    }
  }
}

TEST_CASE("gated_norm agrees with the CPU kernel up to the order of its sum") {
  const GatedCase c = gated_case(5, 16, 128);
  Floats want(c.o.size());
  const std::int64_t n = c.ld() - 8;
  cpu().gated_norm(c.o.data(), n, c.z.data(), c.ld(), c.tokens, c.heads, c.head_dim, c.w.data(),
                   kEps, want.data(), n);
  REQUIRE(worst_error(run_gated<float>(c), want, 1e-6) < 1e-6);
}

TEST_CASE("norms refuse shapes that no kernel takes") {
  AddRmsNormArgs<float> norm;
  for (const std::int64_t width : {0, 1022, 8196}) {
    norm.width = width;
    REQUIRE_THROWS_AS(add_rms_norm(nullptr, norm), InvariantError);
  }
  GatedNormArgs<float> gated;
  gated.head_dim = 64;
  REQUIRE_THROWS_AS(gated_norm(nullptr, gated), InvariantError);
  gated.head_dim = 128;
  gated.ld_z = 130;
  REQUIRE_THROWS_AS(gated_norm(nullptr, gated), InvariantError);
}

TEST_CASE("norms move the least bytes in whole sectors, without bank conflicts") {
  constexpr std::int64_t rows = 3, n = 1024;
  Counting counting;
  run_add_norm<Bf16>(Floats(rows * n, 1.0F), Floats(rows * n, 1.0F), Floats(n, 1.0F), rows);
  // The weight is read once a row, from the cache after the first.
  require_efficient(counting.of("add_rms_norm"), rows * n * (4 + 4 + 4 + 4 + 2));
  const GatedCase c = gated_case(4, 16, 128);
  run_gated<Bf16>(c);
  require_efficient(counting.of("gated_norm"), 4 * 16 * 128 * (4 + 4 + 4 + 2));
}

TEST_CASE("gated_norm starts one group of lanes a head") {
  GatedNormArgs<float> args;
  args.heads = 16;
  args.tokens = 1;
  args.head_dim = 128;
  REQUIRE(gated_norm_grid(args) == Grid{4});
  args.tokens = 3;
  args.head_dim = 16;
  REQUIRE(gated_norm_grid(args) == Grid{2});
}

}  // namespace cairn::kernels::cuda::testing
