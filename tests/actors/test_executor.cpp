// SPDX-License-Identifier: Apache-2.0
// The executor without threads.
#include "actors/executor_desk.hpp"
#include "engine/model_bundle.hpp"
#include "tests/actors/planner_mail.hpp"
#include "tests/support/fake_backend.hpp"

using namespace cairn;
using namespace cairn::actors;
using namespace cairn::tests;

namespace {

std::shared_ptr<Shared> shared_with_fake() {
  auto shared = shared_for("forest");
  auto bundle = std::make_shared<engine::ModelBundle>();
  bundle->sampled_vocab = cairn::testing::FakeOptions{}.sampled_vocab;
  shared->bundle = bundle;
  shared->options.max_running = 4;
  shared->options.max_step_tokens = 16;
  shared->make_backend = [] { return std::make_unique<cairn::testing::FakeBackend>(); };
  shared->pools =
      std::make_shared<engine::MemoryPools>(cairn::testing::FakeBackend().layout(), 1 << 20);
  return shared;
}

Admit sequence(Shared& shared, SequenceId id, std::int32_t tokens) {
  auto spec = std::make_shared<engine::SequenceSpec>();
  spec->id = id;
  spec->tokens = std::make_shared<const std::vector<std::int32_t>>(tokens, 7);
  spec->max_new = 2;
  spec->lease.id = id;
  spec->lease.publish = false;
  spec->lease.reservation = shared.pools->reserve(engine::blocks_for(tokens + 2), 1).value();
  spec->lease.running_state = spec->lease.reservation.take_state();
  return Admit{spec};
}

}  // namespace

TEST_CASE("the pools are told when the executor has work and when it has none") {
  const auto shared = shared_with_fake();
  PlannerMail mail;
  const auto quiet = [&] { return shared->pools->usage().quiet; };
  {
    ExecutorDesk desk(shared, mail);
    CHECK(quiet());
    desk.handle(sequence(*shared, 1, 20));
    int steps = 0;
    while (!quiet() && steps < 20) {
      desk.handle(Step{});
      ++steps;
    }
    CHECK(steps == 3);  // 16 rows, 4 rows and the first token, the second token
    desk.handle(sequence(*shared, 2, 20));
    CHECK_FALSE(quiet());
  }
  CHECK(quiet());  // it died
}
