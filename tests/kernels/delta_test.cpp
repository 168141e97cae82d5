// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/thread_pool.hpp"
#include "tests/kernels/support.hpp"

namespace cairn::kernels::testing {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// One head's inputs; rows are longer than the head, with NaN between heads.
struct Problem {
  Problem(Random& random, std::int32_t dk_, std::int32_t dv_, std::int64_t tokens_)
      : dk(dk_), dv(dv_), tokens(tokens_), ldk(dk_ + 5), ldv(dv_ + 3) {
    q = padded(random, dk, ldk, 0.3F);
    k = padded(random, dk, ldk, 0.3F);
    v = padded(random, dv, ldv, 1.0F);
    decay = random.floats(2 * tokens, 0.5F, 1.0F);
    beta = random.floats(2 * tokens, 0.0F, 1.0F);
    state = random.floats(static_cast<std::int64_t>(dk) * dv);
    state.resize(state.size() + at(groups()), 0.0F);
  }
  Floats padded(Random& random, std::int64_t n, std::int64_t ld, float limit) const {
    Floats x = random.floats(tokens * ld, -limit, limit);
    for (std::int64_t i = 0; i < tokens * ld; ++i) {
      if (i % ld >= n) x[at(i)] = kNan;
    }
    return x;
  }

  std::int64_t groups() const { return delta_groups(dv); }
  /// `s` is S and behind it the pending factors.
  DeltaArgs args(float* s, float* o, std::int64_t begin, std::int64_t end) const {
    DeltaArgs a;
    a.dk = dk;
    a.dv = a.column_end = dv;
    a.tokens = end - begin;
    a.state = s;
    a.pending = s + dk * dv;
    a.q = q.data() + begin * ldk;
    a.k = k.data() + begin * ldk;
    a.v = v.data() + begin * ldv;
    a.ldq = a.ldk = ldk;
    a.ldv = a.ldo = ldv;
    a.decay = decay.data() + 2 * begin;
    a.beta = beta.data() + 2 * begin;
    a.ldg = 2;
    a.o = o + begin * ldv;
    return a;
  }

  /// Outputs and final state with the tokens cut at `cuts` (the last cut is the number of tokens).
  Floats run(const Ops& o, const std::vector<std::int64_t>& cuts, std::int32_t columns) const {
    Floats out(at(tokens * ldv), 7.0F), s = state;
    std::int64_t begin = 0;
    for (const std::int64_t end : cuts) {
      for (std::int32_t c = 0; c < dv; c += columns) {
        DeltaArgs a = args(s.data(), out.data(), begin, end);
        a.column_begin = c;
        a.column_end = std::min(dv, c + columns);
        o.delta_rule(a);
      }
      begin = end;
    }
    out.insert(out.end(), s.begin(), s.end());
    return out;
  }

  /// The same with S multiplied by what was pending, as `reference` has it.
  Floats whole(Floats out) const {
    const float factor = out.back();
    out.resize(out.size() - at(groups()));
    for (std::size_t i = at(tokens * ldv); i < out.size(); ++i) out[i] *= factor;
    return out;
  }

  std::vector<double> reference() const {
    std::vector<double> s(state.begin(), state.end() - groups());
    std::vector<double> out(at(tokens * ldv), 7.0);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const float* kt = k.data() + t * ldk;
      const float* qt = q.data() + t * ldk;
      for (double& x : s) x *= static_cast<double>(decay[at(2 * t)]);
      for (std::int32_t j = 0; j < dv; ++j) {
        double seen = 0;
        for (std::int32_t i = 0; i < dk; ++i)
          seen += s[at(i * dv + j)] * static_cast<double>(kt[i]);
        const double d =
            static_cast<double>(beta[at(2 * t)]) * (static_cast<double>(v[at(t * ldv + j)]) - seen);
        double o = 0;
        for (std::int32_t i = 0; i < dk; ++i) {
          s[at(i * dv + j)] += static_cast<double>(kt[i]) * d;
          o += s[at(i * dv + j)] * static_cast<double>(qt[i]);
        }
        out[at(t * ldv + j)] = o;
      }
    }
    out.insert(out.end(), s.begin(), s.end());
    return out;
  }

  std::int32_t dk, dv;
  std::int64_t tokens, ldk, ldv;
  Floats q, k, v, decay, beta, state;
};

/// The promised order in scalar fp32: every sum over dk ascending, one fma a step; decays gather in
/// a factor until it leaves [2^-60, 2^60].
Floats ordered(const Problem& p) {
  Floats s = p.state, out(at(p.tokens * p.ldv), 7.0F);
  float factor = 1.0F;
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    factor *= p.decay[at(2 * t)];
    if (!(factor >= std::ldexp(1.0F, -60) && factor <= std::ldexp(1.0F, 60))) {
      for (float& x : s) x *= factor;
      factor = 1.0F;
    }
    const float rate = p.beta[at(2 * t)] / factor;
    for (std::int32_t j = 0; j < p.dv; ++j) {
      float seen = 0.0F, o = 0.0F;
      for (std::int32_t i = 0; i < p.dk; ++i) {
        seen = std::fma(p.k[at(t * p.ldk + i)], s[at(i * p.dv + j)], seen);
      }
      const float d = rate * (p.v[at(t * p.ldv + j)] - factor * seen);
      for (std::int32_t i = 0; i < p.dk; ++i) {
        float& x = s[at(i * p.dv + j)];
        x = std::fma(p.k[at(t * p.ldk + i)], d, x);
        o = std::fma(p.q[at(t * p.ldk + i)], x, o);
      }
      out[at(t * p.ldv + j)] = factor * o;
    }
  }
  std::fill(s.end() - p.groups(), s.end(), factor);
  out.insert(out.end(), s.begin(), s.end());
  return out;
}

}  // namespace

TEST_CASE("the delta rule keeps its order and agrees with fp64, at every shape and level") {
  Random random(30);
  struct Shape {
    std::int32_t dk, dv;
  };
  for (const Shape s : {Shape{128, 128}, Shape{16, 16}, Shape{32, 32}, Shape{7, 5}, Shape{1, 1},
                        Shape{48, 77}, Shape{300, 64}}) {
    for (const std::int64_t tokens : {1, 2, 3, 4, 9}) {
      INFO(s.dk << " x " << s.dv << ", " << tokens << " tokens");
      const Problem p(random, s.dk, s.dv, tokens);
      const Floats got =
          same_at_every_level([&](const Ops& o) { return p.run(o, {tokens}, p.dv); });
      REQUIRE(same_bits(got, ordered(p)));
      REQUIRE(worst_error(p.whole(got), p.reference(), 1.0) < 2e-5);
    }
  }
}

TEST_CASE("decays of any size leave what fp64 has, and the same bits wherever tokens are cut") {
  Random random(35);
  const float decays[] = {1.0F, 0.999F, 1e-3F, 1e-12F, 1e-19F, 1e-30F, 0.0F};
  for (const float small : decays) {
    INFO("decays between " << small << " and 1");
    Problem p(random, 32, 72, 40);
    for (std::size_t i = 0; i < p.decay.size(); ++i) {
      p.decay[i] = i % 6 < 4 ? std::max(small, p.decay[i] * small) : p.decay[i];
    }
    p.beta[10] = 0.0F;
    const Floats got = same_at_every_level([&](const Ops& o) { return p.run(o, {40}, p.dv); });
    REQUIRE(same_bits(got, ordered(p)));
    REQUIRE(worst_error(p.whole(got), p.reference(), 1.0) < 2e-5);
    const Ops& o = ops(detect_isa());
    for (std::int64_t cut = 1; cut < 40; ++cut) {
      REQUIRE(same_bits(got, p.run(o, {cut, 40}, cut % 2 == 0 ? 32 : 64)));
    }
  }
}

TEST_CASE(
    "a decay or a value that is no number makes the head's outputs none, on every level alike") {
  Random random(36);
  for (const bool of_decay : {true, false}) {
    Problem p(random, 16, 32, 6);
    (of_decay ? p.decay[4] : p.v[at(2 * p.ldv)]) = kNan;
    const Floats got = same_at_every_level([&](const Ops& o) { return p.run(o, {6}, p.dv); });
    for (std::int64_t t = 0; t < 6; ++t) {
      REQUIRE(std::isnan(got[at(t * p.ldv)]) == (t >= 2));
      REQUIRE(std::isnan(got[at(t * p.ldv + 1)]) == (of_decay && t >= 2));
    }
    REQUIRE(same_bits(got, p.run(ops(detect_isa()), {2, 3, 6}, p.dv)));
  }
}

TEST_CASE("any cut of the tokens leaves the same outputs and the same state") {
  Random random(31);
  for (const std::int32_t d : {16, 128}) {
    const Problem p(random, d, d, 23);
    for (const Isa isa : supported_isas()) {
      const Ops& o = ops(isa);
      const Floats whole = p.run(o, {23}, d);
      for (std::int64_t cut = 0; cut <= 23; ++cut)
        REQUIRE(same_bits(whole, p.run(o, {cut, 23}, d)));
      std::vector<std::int64_t> each;
      for (std::int64_t t = 1; t <= 23; ++t) each.push_back(t);
      REQUIRE(same_bits(whole, p.run(o, each, d)));
      REQUIRE(same_bits(whole, p.run(o, {2, 5, 6, 6, 20, 23}, d)));
    }
  }
}

TEST_CASE("columns of a head may be split") {
  Random random(32);
  const Problem p(random, 128, 128, 6);
  for (const Isa isa : supported_isas()) {
    REQUIRE(same_bits(p.run(ops(isa), {6}, 128), p.run(ops(isa), {6}, 32)));
    REQUIRE(same_bits(p.run(ops(isa), {1, 6}, 128), p.run(ops(isa), {6}, 64)));
  }
}

TEST_CASE("heads split over threads leave the bits that one thread leaves") {
  Random random(33);
  std::vector<Problem> heads;
  for (int h = 0; h < 8; ++h) heads.emplace_back(random, 64, 64, 5);
  const Ops& o = ops(detect_isa());
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::vector<Floats> got(heads.size());
    pool.run(8, [&](std::int64_t h) { got[at(h)] = heads[at(h)].run(o, {5}, 64); });
    for (std::size_t h = 0; h < heads.size(); ++h) {
      REQUIRE(same_bits(got[h], heads[h].run(o, {5}, 64)));
    }
  }
}

TEST_CASE("no tokens leave the state alone") {
  Random random(34);
  const Problem p(random, 16, 16, 1);
  for (const Isa isa : supported_isas()) {
    Floats s = p.state, o(32);
    ops(isa).delta_rule(p.args(s.data(), o.data(), 0, 0));
    REQUIRE(same_bits(s, p.state));
  }
}

}  // namespace cairn::kernels::testing
