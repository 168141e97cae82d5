// SPDX-License-Identifier: Apache-2.0
// What the prefix actor tells the planner, without threads.
#include <memory>
#include <utility>
#include <vector>

#include "actors/prefix_desk.hpp"
#include "metrics/metrics.hpp"
#include "tests/actors/tiny.hpp"

using namespace cairn;
using namespace cairn::actors;
using namespace cairn::tests;

namespace {

// Keeps what the planner would get and drops the rest.
class PlannerMail final : public Mail {
 public:
  std::vector<Observed> seen;
  int granted = 0;

  void planner(PlannerMessage message) override {
    seen.push_back(std::move(std::get<Observed>(message)));
  }
  void router(RouterMessage message) override {
    granted += std::holds_alternative<Granted>(message) ? 1 : 0;
  }
  void router_after(std::chrono::milliseconds, RouterMessage) override {}
  void prefix(PrefixMessage) override {}
  void prefix_after(std::chrono::milliseconds, PrefixMessage) override {}
  void executor(ExecutorMessage) override {}
  void executor_urgent(ExecutorMessage) override {}
  void checkpoints(CheckpointMessage) override {}
  void disk(DiskMessage) override {}
  void disk_after(std::chrono::milliseconds, DiskMessage) override {}
  void worker(int, WorkerMessage) override {}
};

// Six lookups of two prompts.
void look_up(const std::string& policy, PlannerMail& mail) {
  auto shared = std::make_shared<Shared>();
  shared->options = tiny();
  shared->options.policy = policy;
  shared->context_length = 512;
  shared->metrics = std::make_shared<Metrics>();
  shared->pools = std::make_shared<engine::MemoryPools>(
      model::MemoryLayout{.kv_block_bytes = 128, .state_bytes = 1024}, 1 << 20);
  PrefixDesk desk(shared, mail);
  for (SequenceId seq = 1; seq <= 6; ++seq) {
    auto request = std::make_shared<engine::LookupRequest>();
    request->id = seq;
    request->tokens =
        std::make_shared<const std::vector<std::int32_t>>(ids(100, static_cast<int>(seq % 2)));
    request->max_new = 4;
    desk.handle(Lookup{request, 1});
    desk.handle(SequenceOver{seq});
  }
  CHECK(mail.granted == 6);
}

}  // namespace

TEST_CASE("a rule that wants no plans sends the planner nothing") {
  for (const char* policy : {"last", "branch", "branch_path", "balanced:4", "block:64", "marconi",
                             "marconi:0.5", "none", "kv_only"}) {
    CAPTURE(policy);
    PlannerMail mail;
    look_up(policy, mail);
    CHECK(mail.seen.empty());
  }
}

TEST_CASE("the published method hears of each overlap, the default rule's replica of each event") {
  PlannerMail dp;
  look_up("dp:4", dp);
  REQUIRE(dp.seen.size() == 6);
  for (const Observed& m : dp.seen) {
    CHECK(m.observations.size() == 1);
    CHECK_FALSE(m.replica);
    CHECK_FALSE(m.events);
  }
  PlannerMail forest;
  look_up("forest", forest);
  REQUIRE(forest.seen.size() == 6);
  CHECK(forest.seen[0].replica);
  for (std::size_t i = 1; i < forest.seen.size(); ++i) {
    CHECK_FALSE(forest.seen[i].replica);
    REQUIRE(forest.seen[i].events);
    CHECK_FALSE(forest.seen[i].events->empty());
  }
}
