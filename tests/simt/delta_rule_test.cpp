// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/delta_rule.hpp"

#include <numeric>

#include "base/check.hpp"
#include "tests/simt/recurrent_batch.hpp"

namespace cairn::kernels::cuda::testing {
namespace {

constexpr RecurrentShape kTiny{2, 4, 16, 16};
constexpr RecurrentShape kLarge{1, 2, 128, 32};

struct Case {
  RecurrentShape shape;
  std::vector<Plan> plans;
  Floats qkv, gates, states;
  Slot slot() const { return Slot(shape); }
};

Case random_case(const RecurrentShape& shape, std::vector<Plan> plans, std::uint32_t seed) {
  Random random(seed);
  const std::int64_t rows = rows_of(plans);
  Case c{shape, std::move(plans), {}, {}, {}};
  c.qkv = random.floats(rows * shape.channels(), -0.3F, 0.3F);
  c.gates = random.floats(rows * shape.value_heads * 2, 0.0F, 1.0F);
  c.states = random.floats(static_cast<std::int64_t>(c.plans.size()) * c.slot().size);
  return c;
}

/// Tokens [begin, begin + plan.tokens) of c's packed rows as a batch of its own.
Case cut(const Case& c, std::int64_t begin, const Plan& plan, const Floats& state) {
  const std::int64_t channels = c.shape.channels();
  const std::int64_t gates = 2 * c.shape.value_heads;
  return {c.shape,
          {plan},
          part(c.qkv, begin * channels, plan.tokens * channels),
          part(c.gates, begin * gates, plan.tokens * gates),
          state};
}

struct Result {
  Floats o, states, saved;
};

Result run(const Case& c) {
  const Batch batch(c.plans, c.states, c.slot().size);
  const Buffer<float> qkv(c.qkv), gates(c.gates);
  Buffer<float> o(at(rows_of(c.plans) * c.shape.values()));
  delta_rule(nullptr, {batch.pass(), c.shape, qkv.data(), gates.data(), c.slot().state, o.data()});
  return {o.read(), batch.states(), batch.saved()};
}

/// x^T S of one column: lane l of 8 takes the rows of its vectors, even and odd ones apart.
float product(const float* x, const float* column, std::int64_t stride, std::int32_t key_dim) {
  const std::int32_t vec = std::min(4, key_dim / 8);
  Floats lanes;
  for (std::int32_t lane = 0; lane < 8; ++lane) {
    float even = 0.0F, odd = 0.0F;
    for (std::int32_t row = vec * lane; row < key_dim; row += 8 * vec) {
      for (std::int32_t i = row; i < row + vec; ++i) {
        float& sum = i % 2 == 0 ? even : odd;
        sum = std::fma(x[i], column[i * stride], sum);
      }
    }
    lanes.push_back(even + odd);
  }
  return fold(lanes);
}

/// The documented order, for a batch of one slice without saves.
Result in_order(const Case& c) {
  const RecurrentShape& shape = c.shape;
  const std::int64_t dk = shape.key_dim, dv = shape.value_dim;
  Result r{Floats(at(c.plans[0].tokens * shape.values())), c.states, {}};
  for (std::int64_t t = 0; t < c.plans[0].tokens; ++t) {
    for (std::int64_t h = 0; h < shape.value_heads; ++h) {
      float* const s = r.states.data() + c.slot().state + h * dk * dv;
      const std::int64_t key_head = h / (shape.value_heads / shape.key_heads);
      const float* const q = c.qkv.data() + t * shape.channels() + key_head * dk;
      const float* const k = q + shape.keys();
      const float* const v = c.qkv.data() + t * shape.channels() + 2 * shape.keys() + h * dv;
      const float decay = c.gates[at(2 * (t * shape.value_heads + h))];
      const float beta = c.gates[at(2 * (t * shape.value_heads + h) + 1)];
      for (std::int64_t j = 0; j < dv; ++j) {
        const float seen = product(k, s + j, dv, shape.key_dim);
        const float d = std::fma(-(beta * decay), seen, beta * v[j]);
        for (std::int64_t i = 0; i < dk; ++i) {
          s[i * dv + j] = std::fma(k[i], d, decay * s[i * dv + j]);
        }
        r.o[at(t * shape.values() + h * dv + j)] = product(q, s + j, dv, shape.key_dim);
      }
    }
  }
  return r;
}

Plan save_everywhere(std::int32_t tokens) {
  Plan plan{tokens, std::vector<std::int32_t>(static_cast<std::size_t>(tokens))};
  std::iota(plan.saves.begin(), plan.saves.end(), 1);
  return plan;
}

/// The layer's S in a slot.
Floats state_of(const Case& c, const Floats& slots, std::int64_t slot) {
  return part(slots, slot * c.slot().size + c.slot().state, c.slot().window - c.slot().state);
}

}  // namespace

TEST_CASE("delta_rule works in the documented order, at every edge of a stage") {
  for (const RecurrentShape& shape : {kTiny, kLarge}) {
    for (const std::int32_t tokens : {1, 2, 4, 5, 7, 8, 9, 16, 17}) {
      INFO("key_dim " << shape.key_dim << ", tokens " << tokens);
      const Case c = random_case(shape, {{tokens, {}}}, static_cast<std::uint32_t>(tokens));
      const Result got = run(c);
      const Result want = in_order(c);
      REQUIRE(same_bits(got.o, want.o));
      REQUIRE(same_bits(got.states, want.states));  // and what surrounds the layer is as it was
    }
  }
}

TEST_CASE("delta_rule agrees with the CPU kernel up to the order of its sums") {
  const Case c = random_case(kLarge, {{12, {}}}, 70);
  Floats states = c.states, o(at(12 * kLarge.values()));
  DeltaArgs args;
  args.dk = kLarge.key_dim;
  args.dv = args.column_end = kLarge.value_dim;
  args.tokens = 12;
  args.ldq = args.ldk = args.ldv = kLarge.channels();
  std::vector<Floats> gates(2);
  for (std::size_t i = 0; i < c.gates.size(); ++i) gates[i % 2].push_back(c.gates[i]);
  args.ldg = kLarge.value_heads;
  args.ldo = kLarge.values();
  for (std::int32_t h = 0; h < kLarge.value_heads; ++h) {
    args.state = states.data() + c.slot().state + h * args.dk * args.dv;
    Floats pending(at(delta_groups(args.dv)));
    args.pending = pending.data();
    args.q = c.qkv.data();
    args.k = args.q + kLarge.keys();
    args.v = args.k + kLarge.keys() + h * args.dv;
    args.decay = gates[0].data() + h;
    args.beta = gates[1].data() + h;
    args.o = o.data() + h * args.dv;
    cpu().delta_rule(args);
    for (std::int32_t i = 0; i < args.dk * args.dv; ++i) args.state[i] *= pending.front();
  }
  const Result got = run(c);
  REQUIRE(worst_error(got.o, o, 1.0) < 1e-5);
  REQUIRE(worst_error(got.states, states, 1.0) < 1e-5);
}

TEST_CASE("a sequence's recurrence does not depend on the batch or on the columns of a lane") {
  for (const RecurrentShape& shape : {kTiny, kLarge}) {
    const std::vector<Plan> plans = {{9, {1, 8, 9}}, {0, {}},  {1, {1}}, {11, {3}},
                                     {8, {}},        {17, {}}, {3, {2}}, {17, {}}};
    const Case all = random_case(shape, plans, 71);
    const Result batch = run(all);
    std::int64_t row = 0, save = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const auto slot = static_cast<std::int64_t>(i);
      const std::int64_t size = all.slot().size;
      const Case one = cut(all, row, plans[i], part(all.states, slot * size, size));
      const Result alone = run(one);
      const auto saves = static_cast<std::int64_t>(plans[i].saves.size());
      REQUIRE(same_bits(alone.o,
                        part(batch.o, row * shape.values(), plans[i].tokens * shape.values())));
      REQUIRE(same_bits(alone.states, part(batch.states, slot * size, size)));
      REQUIRE(same_bits(alone.saved, part(batch.saved, save * size, saves * size)));
      row += plans[i].tokens;
      save += saves;
    }
  }
}

TEST_CASE("a state saved at any token goes on to the bits of the whole pass") {
  constexpr std::int32_t tokens = 18;
  for (const RecurrentShape& shape : {kTiny, kLarge}) {
    const Case c = random_case(shape, {save_everywhere(tokens)}, 72);
    const Result whole = run(c);
    for (std::int32_t p = 1; p < tokens; ++p) {
      const Floats saved = part(whole.saved, (p - 1) * c.slot().size, c.slot().size);
      const Result first = run(cut(c, 0, {p, {}}, c.states));
      REQUIRE(same_bits(state_of(c, saved, 0), state_of(c, first.states, 0)));
      const Result rest = run(cut(c, p, {tokens - p, {}}, saved));
      REQUIRE(same_bits(state_of(c, rest.states, 0), state_of(c, whole.states, 0)));
      Floats o = first.o;
      o.insert(o.end(), rest.o.begin(), rest.o.end());
      REQUIRE(same_bits(o, whole.o));
    }
    REQUIRE(same_bits(state_of(c, whole.saved, tokens - 1), state_of(c, whole.states, 0)));
  }
}

TEST_CASE("decoding token by token leaves the bits of a prefill") {
  constexpr std::int32_t tokens = 10;
  const Case c = random_case(kLarge, {{tokens, {}}}, 73);
  const Result whole = run(c);
  Floats state = c.states, o;
  for (std::int32_t t = 0; t < tokens; ++t) {
    Result step = run(cut(c, t, {1, {}}, state));
    o.insert(o.end(), step.o.begin(), step.o.end());
    state = std::move(step.states);
  }
  REQUIRE(same_bits(o, whole.o));
  REQUIRE(same_bits(state, whole.states));
}

TEST_CASE("delta_rule writes nothing of a save's slot but its layer's S") {
  const Case c = random_case(kTiny, {{3, {2}}}, 74);
  const Result got = run(c);
  const Slot slot = c.slot();
  for (std::int64_t i = 0; i < slot.size; ++i) {
    REQUIRE(std::isnan(got.saved[at(i)]) == (i < slot.state || i >= slot.window));
  }
}

TEST_CASE("decoding moves little but the state, in whole sectors, without bank conflicts") {
  constexpr RecurrentShape shape{2, 2, 128, 128};
  const std::int64_t state = shape.value_heads * 128 * 128 * 4;
  const std::int64_t vectors = 4 * 2 * 128 * 4 + 2 * 2 * 4;  // q, k, v, o and gates
  Counting counting;
  run(random_case(shape, {{1, {}}}, 75));
  require_efficient(counting.of("delta_rule"), 2 * state + vectors);
}

TEST_CASE("a prefill reads and writes its state once, whatever its length") {
  constexpr RecurrentShape shape{1, 1, 128, 32};
  constexpr std::int64_t tiles = 2, state = 128 * 32 * 4;
  for (const std::int32_t tokens : {9, 24}) {
    Counting counting;
    run(random_case(shape, {{tokens, {tokens - 1}}}, 76));
    const Counters counted = counting.of("delta_rule");
    const std::int64_t inputs = tokens * (tiles * (2 * 128 * 4 + 8) + 32 * 4);
    REQUIRE(counted.loads.bytes == state + inputs);
    REQUIRE(counted.stores.bytes == 2 * state + tokens * 32 * 4);  // running and saved
    REQUIRE(counted.loads.efficiency() >= 0.9);
    REQUIRE(counted.stores.efficiency() == 1.0);
    REQUIRE(counted.shared.conflicts == 0);
  }
}

TEST_CASE("delta_rule starts a block for 16 columns, 128 for one row of Qwen3.5-0.8B") {
  DeltaRuleArgs args;
  args.shape = {16, 16, 128, 128};
  args.pass.slice_count = 1;
  REQUIRE(delta_rule_grid(args) == Grid{8, 16, 1});
  args.shape = kTiny;
  args.pass.slice_count = 3;
  REQUIRE(delta_rule_grid(args) == Grid{1, 4, 3});
}

TEST_CASE("a lane holds two columns while few long slices are all there is") {
  const auto columns = [](std::int64_t rows, std::int32_t longest) {
    Pass pass;
    pass.rows = rows;
    pass.longest = longest;
    return delta_rule_columns(pass);
  };
  REQUIRE(columns(1, 1) == 4);
  REQUIRE(columns(4, 4) == 4);
  REQUIRE(columns(5, 5) == 2);
  REQUIRE(columns(2047, 512) == 2);
  REQUIRE(columns(2048, 512) == 4);
}

TEST_CASE("delta_rule refuses shapes that no kernel takes") {
  const auto refused = [](const RecurrentShape& shape, std::int64_t offset) {
    DeltaRuleArgs args;
    args.shape = shape;
    args.state_offset = offset;
    REQUIRE_THROWS_AS(delta_rule(nullptr, args), InvariantError);
  };
  refused({2, 4, 64, 16}, 0);
  refused({2, 4, 16, 24}, 0);
  refused({2, 3, 16, 16}, 0);
  refused({0, 4, 16, 16}, 0);
  refused(kTiny, 2);
}

}  // namespace cairn::kernels::cuda::testing
