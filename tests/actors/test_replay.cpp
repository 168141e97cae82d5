// SPDX-License-Identifier: Apache-2.0
// What the simulator says a server would do is what the server does: recorded requests, scaled to
// the demo model, through both.
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "engine/placement/demand_forest.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "engine/simulate/simulator.hpp"
#include "metrics/metrics.hpp"
#include "model/net/backend.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/client.hpp"

using namespace cairn;
using namespace cairn::tests;

namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::size_t kRequests = 300;
constexpr std::int32_t kScale = 64;         // tokens of the record for one here
constexpr std::uint64_t kBytes = 16 << 20;  // of the cache and what runs
constexpr std::uint64_t kSweepEvery = engine::DemandOptions{}.sweep_every;
constexpr double kCopyTokens = engine::kWriteTokens;
constexpr std::int32_t kIds = 4000;  // ids of the demo model that are text

Ids random_ids(std::mt19937& random, std::size_t n) {
  Ids ids(n);
  for (auto& id : ids) id = static_cast<std::int32_t>(random() % static_cast<unsigned>(kIds));
  return ids;
}

// Token ids that overlap as the scaled rows do, or a few more by chance.
class ScaledTrace final : public engine::Trace {
 public:
  explicit ScaledTrace(std::vector<Ids> prompts)
      : Trace(lengths(prompts)), prompts_(std::move(prompts)) {}
  Tokens tokens(std::size_t i) const override { return std::make_shared<const Ids>(prompts_[i]); }
  const Ids& prompt(std::size_t i) const { return prompts_[i]; }

 private:
  static std::vector<engine::TraceRequest> lengths(const std::vector<Ids>& prompts) {
    std::vector<engine::TraceRequest> out(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      out[i].length = static_cast<std::int32_t>(prompts[i].size());
    }
    return out;
  }
  std::vector<Ids> prompts_;
};

std::unique_ptr<const ScaledTrace> scaled_mix() {
  const auto record =
      engine::read_trace(std::string(CAIRN_SOURCE_DIR) + "/bench/traces/mix5.csv.gz");
  std::mt19937 random(11);
  std::vector<Ids> prompts;
  for (std::size_t i = 0; i < kRequests; ++i) {
    const engine::TraceRequest& row = (*record)[i];
    Ids prompt;
    if (row.parent >= 0) {
      const Ids& parent = prompts[static_cast<std::size_t>(row.parent)];
      const auto shared =
          std::min<std::size_t>(static_cast<std::size_t>(row.overlap / kScale), parent.size());
      prompt.assign(parent.begin(), parent.begin() + static_cast<std::ptrdiff_t>(shared));
    }
    const auto length = static_cast<std::size_t>(std::max(row.length / kScale, 1));
    const Ids fresh = random_ids(random, length - std::min(length, prompt.size()));
    prompt.insert(prompt.end(), fresh.begin(), fresh.end());
    prompts.push_back(std::move(prompt));
  }
  return std::make_unique<const ScaledTrace>(std::move(prompts));
}

struct Decisions {
  std::vector<std::int32_t> resume;
  std::vector<double> stored, dropped;  // so far
  model::MemoryLayout layout;
};

double total(const Metrics& from, metrics::Counter (Metrics::*of)(CheckpointKind) const noexcept) {
  double sum = 0;
  for (int k = 0; k <= static_cast<int>(CheckpointKind::pinned); ++k) {
    sum += (from.*of)(static_cast<CheckpointKind>(k)).value();
  }
  return sum;
}

model::MemoryLayout layout_of(const Engine& engine) {
  return {.kv_block_bytes = engine.info().kv_bytes_per_token * model::kBlockTokens,
          .state_bytes = engine.info().state_bytes};
}

// The planner's plans come in time, as the simulator's do.
void wait_for_plan(const Engine& engine, std::uint64_t epoch) {
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (engine.stats().plan_epoch < epoch && std::chrono::steady_clock::now() < late) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(engine.stats().plan_epoch >= epoch);
}

Decisions live(const ScaledTrace& trace, const std::string& policy,
               std::optional<double> copy_tokens) {
  EngineOptions options;
  options.policy = policy;
  options.copy_tokens = copy_tokens;
  options.cache_bytes = kBytes;
  options.threads = 1;
  auto metrics = std::make_shared<Metrics>();
  auto engine = make_engine(options, metrics);
  Decisions out;
  out.layout = layout_of(*engine);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    GenerateRequest request = ids_request(trace.prompt(i), 1);
    request.ignore_eos = true;
    const Answer answer = ask(*engine, std::move(request));
    REQUIRE_FALSE(answer.error);
    if (policy == "forest") wait_for_plan(*engine, (i + 1) / kSweepEvery);
    out.resume.push_back(answer.cached());
    out.stored.push_back(total(*metrics, &Metrics::state_checkpoint_stored_total));
    out.dropped.push_back(total(*metrics, &Metrics::state_checkpoint_evicted_total));
  }
  return out;
}

Decisions simulated(const ScaledTrace& trace, const std::string& policy,
                    const model::MemoryLayout& layout) {
  engine::SimulatorOptions options;
  options.bytes = kBytes;
  options.server = layout;
  options.policy_costs = {.write = kCopyTokens, .restore = kCopyTokens};
  options.idle_requests = engine::PrefixOptions{}.idle_requests;
  Decisions out;
  options.each = [&](const engine::SimulatedRequest& r) {
    out.resume.push_back(r.resume);
    out.stored.push_back(static_cast<double>(r.stored));
    out.dropped.push_back(static_cast<double>(r.dropped));
  };
  engine::simulate(trace, engine::make_cache_policy(policy).take(), options);
  return out;
}

}  // namespace

TEST_CASE("recorded requests are resumed, stored and dropped live as the simulator says") {
  const auto trace = scaled_mix();
  const auto* policy = GENERATE("branch", "forest");
  CAPTURE(policy);
  const Decisions here = live(*trace, policy, kCopyTokens);
  const Decisions there = simulated(*trace, policy, here.layout);
  CHECK(here.resume == there.resume);
  CHECK(here.stored == there.stored);
  CHECK(here.dropped == there.dropped);
  CHECK(here.dropped.back() > 200);
  CHECK(std::count_if(here.resume.begin(), here.resume.end(), [](auto c) { return c > 0; }) > 100);
}

TEST_CASE("where costs are measured the default rule differs from the simulator by little") {
  const auto trace = scaled_mix();
  const Decisions here = live(*trace, "forest", {});
  const Decisions there = simulated(*trace, "forest", here.layout);
  // Nothing has been measured when the first request is decided.
  CHECK(here.stored.front() == there.stored.front());
  std::int64_t cached_here = 0, cached_there = 0;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    differ += here.resume[i] != there.resume[i] ? 1 : 0;
    cached_here += here.resume[i];
    cached_there += there.resume[i];
  }
  CHECK(differ < trace->size() / 10);
  CHECK(static_cast<double>(cached_here) ==
        Approx(static_cast<double>(cached_there)).epsilon(0.05));
  CHECK(here.dropped.back() == Approx(there.dropped.back()).epsilon(0.1));
}
