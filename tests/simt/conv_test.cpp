// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/conv.hpp"

#include <numeric>

#include "base/check.hpp"
#include "tests/simt/recurrent_batch.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

constexpr RecurrentShape kTiny{2, 4, 16, 16};     // one warp of channels
constexpr RecurrentShape kOdd{3, 6, 16, 16};      // channels end inside a warp
constexpr RecurrentShape kLarge{1, 2, 128, 128};  // a block of channels, exactly

struct Case {
  RecurrentShape shape;
  std::vector<Plan> plans;
  Floats x, states;  // rows of q | k | v | b | a | 4 values of padding
  Floats weight, a_log, dt_bias;
  std::int64_t ld() const { return shape.channels() + 2 * shape.value_heads + 4; }
  std::int64_t b() const { return shape.channels(); }
  std::int64_t a() const { return b() + shape.value_heads; }
  Slot slot() const { return Slot(shape); }
};

Case random_case(const RecurrentShape& shape, std::vector<Plan> plans, std::uint32_t seed) {
  Random random(seed);
  Case c{shape, std::move(plans), {}, {}, {}, {}, {}};
  c.x = random.floats(rows_of(c.plans) * c.ld(), -3.0F, 3.0F);
  c.states = random.floats(static_cast<std::int64_t>(c.plans.size()) * c.slot().size);
  c.weight = random.floats(4 * shape.channels());
  c.a_log = random.floats(shape.value_heads, -2.0F, 2.0F);
  c.dt_bias = random.floats(shape.value_heads);
  return c;
}

/// Tokens [begin, begin + plan.tokens) of c's packed rows as a batch of its own.
Case cut(const Case& c, std::int64_t begin, const Plan& plan, const Floats& state) {
  Case one = c;
  one.plans = {plan};
  one.x = part(c.x, begin * c.ld(), plan.tokens * c.ld());
  one.states = state;
  return one;
}

struct Result {
  Floats y, gates, states, saved;
};

Result run(const Case& c) {
  const Batch batch(c.plans, c.states, c.slot().size);
  const std::int64_t rows = rows_of(c.plans);
  const Buffer<float> x(c.x), weight(c.weight), a_log(c.a_log), dt_bias(c.dt_bias);
  Buffer<float> y(at(rows * c.shape.channels())), gates(at(rows * c.shape.value_heads * 2));
  conv_gates(nullptr, {batch.pass(), c.shape, x.data(), x.data() + c.a(), x.data() + c.b(), c.ld(),
                       weight.data(), a_log.data(), dt_bias.data(), c.slot().window, y.data(),
                       gates.data()});
  return {y.read(), gates.read(), batch.states(), batch.saved()};
}

/// q and k by the documented order: key_dim / 4 lanes of four values fold by halves.
void norm_keys(const RecurrentShape& shape, float* row) {
  const std::int64_t dk = shape.key_dim;
  for (std::int64_t head = 0; head < 2 * shape.key_heads; ++head) {
    float* const x = row + head * dk;
    Floats lanes;
    for (std::int64_t i = 0; i < dk; i += 4) {
      float sum = 0.0F;
      for (std::int64_t j = i; j < i + 4; ++j) sum = std::fma(x[j], x[j], sum);
      lanes.push_back(sum);
    }
    const float norm = 1.0F / std::sqrt(fold(lanes) + 1e-6F);
    const float scale = 1.0F / std::sqrt(static_cast<float>(dk));
    for (std::int64_t i = 0; i < dk; ++i) {
      x[i] = x[i] * norm;
      if (head < shape.key_heads) x[i] = x[i] * scale;
    }
  }
}

/// The CPU kernels for a batch of one slice without saves, q and k not yet normed.
Result on_cpu(const Case& c) {
  const std::int64_t rows = c.plans[0].tokens, channels = c.shape.channels();
  const std::int32_t heads = c.shape.value_heads;
  Result r{Floats(at(rows * channels)), Floats(at(rows * heads * 2)), c.states, {}};
  ConvArgs args;
  args.channels = args.channel_end = args.ldy = channels;
  args.tokens = rows;
  args.weight = c.weight.data();
  args.window = r.states.data() + c.slot().window;
  args.x = c.x.data();
  args.ldx = c.ld();
  args.y = r.y.data();
  cpu().conv_silu(args);
  Floats decay(at(rows * heads)), beta(decay.size());
  cpu().gates(c.x.data() + c.a(), c.x.data() + c.b(), c.ld(), rows, heads, c.a_log.data(),
              c.dt_bias.data(), decay.data(), beta.data());
  for (std::size_t i = 0; i < decay.size(); ++i) {
    r.gates[2 * i] = decay[i];
    r.gates[2 * i + 1] = beta[i];
  }
  return r;
}

}  // namespace

TEST_CASE("conv_gates has the CPU's convolution, gates and window, and norms q and k in order") {
  for (const RecurrentShape& shape : {kTiny, kOdd, kLarge}) {
    for (const std::int32_t tokens : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 18, 19, 33}) {
      INFO("channels " << shape.channels() << ", tokens " << tokens);
      const Case c = random_case(shape, {{tokens, {}}}, static_cast<std::uint32_t>(tokens));
      Result want = on_cpu(c);
      for (std::int64_t t = 0; t < tokens; ++t) {
        norm_keys(shape, want.y.data() + t * shape.channels());
      }
      const Result got = run(c);
      REQUIRE(same_bits(got.y, want.y));
      REQUIRE(same_bits(got.gates, want.gates));
      REQUIRE(same_bits(got.states, want.states));  // and what surrounds the window is as it was
    }
  }
}

TEST_CASE("conv_gates norms q and k as the CPU does up to the order of the sum") {
  const Case c = random_case(kLarge, {{5, {}}}, 80);
  Floats want = on_cpu(c).y;
  cpu().l2_norm_qk(want.data(), want.data() + kLarge.keys(), kLarge.channels(), 5, kLarge.key_heads,
                   kLarge.key_dim);
  REQUIRE(worst_error(run(c).y, want, 1e-6) < 1e-6);
}

TEST_CASE("a sequence's convolution does not depend on the batch") {
  const std::vector<Plan> plans = {{9, {1, 8, 9}},        {0, {}},        {1, {1}}, {1, {}},
                                   {40, {2, 16, 17, 32}}, {16, {15, 16}}, {3, {2}}, {17, {17}}};
  const Case all = random_case(kTiny, plans, 81);
  const Result batch = run(all);
  const std::int64_t size = all.slot().size, channels = kTiny.channels();
  std::int64_t row = 0, save = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::int64_t tokens = plans[i].tokens, gates = 2 * kTiny.value_heads;
    const auto slot = static_cast<std::int64_t>(i);
    const auto saves = static_cast<std::int64_t>(plans[i].saves.size());
    const Result alone = run(cut(all, row, plans[i], part(all.states, slot * size, size)));
    REQUIRE(same_bits(alone.y, part(batch.y, row * channels, tokens * channels)));
    REQUIRE(same_bits(alone.gates, part(batch.gates, row * gates, tokens * gates)));
    REQUIRE(same_bits(alone.states, part(batch.states, slot * size, size)));
    REQUIRE(same_bits(alone.saved, part(batch.saved, save * size, saves * size)));
    row += tokens;
    save += saves;
  }
}

TEST_CASE("a window saved at any token goes on to the bits of the whole pass") {
  constexpr std::int32_t tokens = 35;
  Plan everywhere{tokens, std::vector<std::int32_t>(static_cast<std::size_t>(tokens))};
  std::iota(everywhere.saves.begin(), everywhere.saves.end(), 1);
  const Case c = random_case(kTiny, {everywhere}, 82);
  const Slot slot = c.slot();
  const auto window_of = [&](const Floats& slots, std::int64_t index) {
    return part(slots, index * slot.size + slot.window, slot.end - slot.window);
  };
  const Result whole = run(c);
  for (std::int32_t p = 1; p < tokens; ++p) {
    const Result first = run(cut(c, 0, {p, {}}, c.states));
    REQUIRE(same_bits(window_of(whole.saved, p - 1), window_of(first.states, 0)));
    const Result rest =
        run(cut(c, p, {tokens - p, {}}, part(whole.saved, (p - 1) * slot.size, slot.size)));
    REQUIRE(same_bits(window_of(rest.states, 0), window_of(whole.states, 0)));
    Floats y = first.y;
    y.insert(y.end(), rest.y.begin(), rest.y.end());
    REQUIRE(same_bits(y, whole.y));
  }
  REQUIRE(same_bits(window_of(whole.saved, tokens - 1), window_of(whole.states, 0)));
}

TEST_CASE("conv_gates writes nothing of a save's slot but its layer's window") {
  const Case c = random_case(kOdd, {{20, {18}}}, 83);
  const Result got = run(c);
  const Slot slot = c.slot();
  for (std::int64_t i = 0; i < slot.size; ++i) {
    REQUIRE(std::isnan(got.saved[at(i)]) == (i < slot.window || i >= slot.end));
  }
}

TEST_CASE("a chunk of a slice that is nothing touches nothing") {
  const Case c = random_case(kTiny, {{1, {}}}, 85);
  const Result want = run(c);
  const Batch batch(c.plans, c.states, c.slot().size);
  const Buffer<PassSlice> slices({batch.pass().slices[0], PassSlice{}});  // no state either
  const Buffer<PassChunk> chunks({{0, 0}, {1, 0}});
  Pass pass = batch.pass();
  pass.slices = slices.data();
  pass.chunks = chunks.data();
  pass.slice_count = pass.chunk_count = 2;
  const Buffer<float> x(c.x), weight(c.weight), a_log(c.a_log), dt_bias(c.dt_bias);
  Buffer<float> y(at(kTiny.channels())), gates(at(kTiny.value_heads * 2));
  conv_gates(nullptr,
             {pass, kTiny, x.data(), x.data() + c.a(), x.data() + c.b(), c.ld(), weight.data(),
              a_log.data(), dt_bias.data(), c.slot().window, y.data(), gates.data()});
  REQUIRE(same_bits(y.read(), want.y));
  REQUIRE(same_bits(gates.read(), want.gates));
  REQUIRE(same_bits(batch.states(), want.states));
}

TEST_CASE("conv_gates moves the least bytes in whole sectors") {
  constexpr RecurrentShape shape{2, 4, 128, 128};
  constexpr std::int64_t row = 1024 * 4, heads = 4;
  const auto counted = [&](std::int32_t tokens) {
    Case c = random_case(shape, {{tokens, {}}}, 84);
    Counting counting;
    run(c);
    return counting.of("conv_gates");
  };
  // One token: weight, window, row; row, window; a, b and their constants; gates.
  require_efficient(counted(1), (4 + 3 + 1 + 1 + 3) * row + heads * (4 * 4 + 8));
  // 64 tokens: beside each row in and out, weight once in 16 rows, from the cache after the first.
  require_efficient(counted(64), (64 + 4 * 4 + 64 + 3 + 3) * row + 64 * heads * (4 * 4 + 8));
}

TEST_CASE("conv_gates starts a block for 16 tokens and 512 channels, and one for the gates") {
  ConvGatesArgs args;
  args.shape = {16, 16, 128, 128};
  args.pass.chunk_count = 3;
  REQUIRE(conv_gates_grid(args) == Grid{3, 13});
  args.shape = kTiny;
  REQUIRE(conv_gates_grid(args) == Grid{3, 2});
}

TEST_CASE("chunks cover each token of a slice once") {
  std::vector<PassChunk> chunks;
  append_chunks(4, 0, chunks);
  append_chunks(5, 16, chunks);
  append_chunks(6, 33, chunks);
  std::vector<std::int32_t> seen;
  for (const PassChunk& chunk : chunks) seen.insert(seen.end(), {chunk.slice, chunk.token});
  REQUIRE(seen == std::vector<std::int32_t>{5, 0, 6, 0, 6, 16, 6, 32});
}

TEST_CASE("conv_gates refuses shapes that no kernel takes") {
  const auto refused = [](const RecurrentShape& shape, std::int64_t ld, std::int64_t offset) {
    ConvGatesArgs args;
    args.shape = shape;
    args.ld_x = ld;
    args.window_offset = offset;
    REQUIRE_THROWS_AS(conv_gates(nullptr, args), InvariantError);
  };
  refused({2, 4, 64, 16}, 512, 0);
  refused({2, 4, 16, 24}, 512, 0);
  refused({1, 3, 16, 16}, 512, 0);
  refused(kTiny, 514, 0);
  refused(kTiny, 512, 2);
}

}  // namespace cairn::kernels::cuda::testing
