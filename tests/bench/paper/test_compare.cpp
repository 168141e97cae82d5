// SPDX-License-Identifier: Apache-2.0
// What the published comparison must show whatever the data.
#include "bench/paper/compare.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::paper;

namespace {

const std::string kTraces = CAIRN_SOURCE_DIR "/bench/traces/";

std::vector<Workload> some_workloads() {
  std::vector<Workload> out;
  out.push_back(from_trace("xquad", kTraces + "xquad_en_live20.csv.gz"));
  out.push_back(from_trace("gsm8k", kTraces + "gsm8k8shot.csv.gz"));
  out.push_back(generate_documents(1));
  out.push_back(generate_queries(read_prompt_lengths(kTraces + "system_prompt_lengths.csv"), 2));
  out.push_back(generate_wide(3));
  return out;
}

}  // namespace

TEST_CASE("In sample, dp recomputes at most what every baseline does, at every budget") {
  for (const Workload& workload : some_workloads()) {
    const auto samples = partial_overlaps(workload);
    REQUIRE(samples.size() > 200);
    for (const Scale scale : {Scale::absolute, Scale::fraction}) {
      const Pooled all = pool(samples, scale, samples);
      for (const int states : kBudgets) {
        const double best = share(Rule::dp, states, all, all);
        for (const Rule rule : kRules) {
          INFO(workload.name << ", " << to_string(scale) << ", " << states << ", "
                             << to_string(rule));
          // One rounding of a sum of as many terms.
          CHECK(best <= share(rule, states, all, all) * (1 + 1e-12));
          CHECK(std::ssize(positions(rule, states, all)) <= states);
        }
      }
    }
  }
}

TEST_CASE("A plan of the whole forest recomputes at most what dp does with as many states") {
  for (const Workload& workload : some_workloads()) {
    const auto samples = partial_overlaps(workload);
    const std::vector<int> budgets = {1, 3, 8};
    std::vector<std::int64_t> states;
    for (const int m : budgets) states.push_back(m * retained_prompts(workload));
    const auto shares = forest_shares(workload, states);
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      for (const Scale scale : {Scale::absolute, Scale::fraction}) {
        const Pooled all = pool(samples, scale, samples);
        INFO(workload.name << ", " << to_string(scale) << ", " << budgets[i]);
        CHECK(shares[i] <= share(Rule::dp, budgets[i], all, all) + 1e-9);
      }
    }
  }
}

TEST_CASE("A plan of the whole forest gains by every state until none is left to gain") {
  const Workload workload = generate_wide(3);
  REQUIRE(groups(workload) >= 60);
  const std::vector<std::int64_t> states = {0, 1, 60, 600, 6000};
  const auto shares = forest_shares(workload, states);
  CHECK(shares[0] == Approx(1));
  CHECK(shares[1] < shares[0]);
  CHECK(shares[2] < shares[1]);
  CHECK(shares[3] < shares[2]);
  CHECK(shares[4] == Approx(0).margin(1e-12));
}

TEST_CASE("Pooled samples cost in tokens what requests would") {
  const std::vector<Sample> samples = {{300, 1000}, {1500, 3000}};
  for (const Scale scale : {Scale::absolute, Scale::fraction}) {
    const Pooled all = pool(samples, scale, samples);
    CHECK(all.length == (scale == Scale::absolute ? 3000 : 2000));
    CHECK(all.total == Approx(1800));
    CHECK(share(Rule::none, 5, all, all) == Approx(1));
    CHECK(share(Rule::kv_only, 5, all, all) == Approx(1));
    CHECK(share(Rule::dp, 2, all, all) == Approx(0).margin(1e-12));
  }
  // One state half-way: by position at 1500, by share at half of each.
  const Pooled position = pool(samples, Scale::absolute, samples);
  CHECK(share(Rule::balanced, 1, position, position) == Approx(300.0 / 1800));
  const Pooled fraction = pool(samples, Scale::fraction, samples);
  CHECK(share(Rule::balanced, 1, fraction, fraction) == Approx(300.0 / 1800));
}

TEST_CASE("Only requests that leave a prompt before its end are samples") {
  Workload workload{"w",
                    {{.length = 100, .overlap = 0, .parent = -1},
                     {.length = 120, .overlap = 100, .parent = 0},  // extends it
                     {.length = 120, .overlap = 99, .parent = 0},   // its end state serves
                     {.length = 120, .overlap = 98, .parent = 0},
                     {.length = 50, .overlap = 0, .parent = 0}}};
  const auto samples = partial_overlaps(workload);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].depth == 98);
  CHECK(samples[0].length == 100);
}

TEST_CASE("sqrt_spacing keeps the deepest multiples of the root of the length") {
  Pooled on;
  on.length = 100;
  CHECK(positions(Rule::sqrt_spacing, 3, on) == std::vector<std::int64_t>{80, 90, 100});
  on.length = 90;
  CHECK(positions(Rule::sqrt_spacing, 20, on) ==
        std::vector<std::int64_t>{10, 20, 30, 40, 50, 60, 70, 80, 90});
}

TEST_CASE("dp needs far fewer states than a block of the same recompute") {
  const auto samples = partial_overlaps(from_trace("xquad", kTraces + "xquad_en_live20.csv.gz"));
  const Pooled all = pool(samples, Scale::fraction, samples);
  const int reached = dp_reaches_block(20, all, all);
  CHECK(share(Rule::dp, reached, all, all) <= share(Rule::block, 20, all, all));
  CHECK(share(Rule::dp, reached - 1, all, all) > share(Rule::block, 20, all, all));
  CHECK(reached <= 4);
}

TEST_CASE("Generated workloads are the same for the same seed and not for another") {
  const auto same = [](const Workload& a, const Workload& b) {
    return std::equal(a.requests.begin(), a.requests.end(), b.requests.begin(), b.requests.end(),
                      [](const auto& x, const auto& y) {
                        return x.length == y.length && x.overlap == y.overlap &&
                               x.parent == y.parent;
                      });
  };
  CHECK(same(generate_wide(7), generate_wide(7)));
  CHECK_FALSE(same(generate_wide(7), generate_wide(8)));
  CHECK(same(generate_documents(7), generate_documents(7)));
  for (const Workload& w : {generate_wide(7), generate_documents(7)}) {
    CHECK(engine::chain_trace(w.requests)->size() == w.requests.size());
  }
}
