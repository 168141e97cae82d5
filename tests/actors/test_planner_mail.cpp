// SPDX-License-Identifier: Apache-2.0
// What the prefix actor tells the planner, without threads.
#include <string>

#include "tests/actors/planner_mail.hpp"
#include "tests/actors/tiny.hpp"

using namespace cairn;
using namespace cairn::actors;
using namespace cairn::tests;

namespace {

// Six lookups of two prompts.
void look_up(const std::string& policy, PlannerMail& mail) {
  PrefixDesk desk(shared_for(policy), mail);
  for (SequenceId seq = 1; seq <= 6; ++seq) serve(desk, seq, ids(100, static_cast<int>(seq % 2)));
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
