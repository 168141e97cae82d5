// SPDX-License-Identifier: Apache-2.0
// Who gets the rows and the blocks.
#include <numeric>

#include "engine/batch/share.hpp"
#include "tests/engine/batch/harness.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;
using engine::PrefillClaim;

TEST_CASE("rows go half to the oldest and half to the shortest prompt") {
  engine::PrefillShare share;
  const auto split = [&](std::vector<PrefillClaim> claims, std::int32_t budget) {
    const auto shares = share.split(claims, budget);
    return Tokens(shares.begin(), shares.end());
  };
  CHECK(split({{1000, 1000}, {300, 300}, {20, 20}}, 100) == Tokens{50, 30, 20});
  CHECK(split({{10, 10}, {1000, 1000}, {500, 500}}, 100) == Tokens{10, 40, 50});
  CHECK(split({{1000, 1000}}, 100) == Tokens{100});
  CHECK(split({{1000, 1000}, {5, 5}}, 1) == Tokens{1, 0});
  CHECK(split({{0, 90}, {5, 5}}, 8) == Tokens{0, 5});
  CHECK(split({}, 8).empty());
}

TEST_CASE("no share exceeds its claim, no row is left while somebody could use it") {
  engine::PrefillShare share;
  std::mt19937_64 rng(40);
  for (int round = 0; round < 2000; ++round) {
    std::vector<PrefillClaim> claims;
    for (auto i = rng() % 9; i > 0; --i) {
      const auto left = static_cast<std::int32_t>(rng() % 300 + 1);
      claims.push_back({static_cast<std::int32_t>(rng() % static_cast<unsigned>(left + 1)), left});
    }
    const auto budget = static_cast<std::int32_t>(rng() % 200 + 1);
    const auto shares = share.split(claims, budget);
    std::int32_t given = 0;
    std::int32_t asked = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      CHECK((shares[i] >= 0 && shares[i] <= claims[i].rows));
      given += shares[i];
      asked += claims[i].rows;
    }
    CHECK(given == std::min(asked, budget));
  }
}

TEST_CASE("short prompts pass a giant one, which still advances in every step") {
  Rig rig({.max_step_tokens = 64}, 4096, 512, {.attention_in_state = false});
  rig.loop.admit(rig.spec(0, random_ask(50, 6000, 2)));
  rig.step();
  for (SequenceId id = 1; id <= 6; ++id) {
    rig.loop.admit(rig.spec(id, random_ask(50 + id, 60, 2)));
    const int admitted = rig.steps;
    std::int32_t before = rig.loop.progress(0);
    while (!rig.outcomes[id].ended) {
      rig.step();
      CHECK(rig.loop.progress(0) - before >= 30);
      before = rig.loop.progress(0);
    }
    CHECK(rig.outcomes[id].first_token_step - admitted < 3);
  }
  rig.loop.cancel(0);
  rig.run();
}

TEST_CASE("the oldest prompt gets half of the rows however many short ones keep coming") {
  Rig rig({.max_step_tokens = 32}, 4096, 512, {.attention_in_state = false});
  rig.loop.admit(rig.spec(0, random_ask(60, 800, 1)));
  for (SequenceId id = 1; !rig.outcomes[0].ended; ++id) {
    while (rig.loop.running() < 8)
      rig.loop.admit(rig.spec(id * 100 + rig.loop.running(), random_ask(id, 30, 1)));
    rig.step();
    REQUIRE(rig.steps <= 800 / 16 + 2);
  }
  rig.loop.cancel_all();
  rig.run();
}

TEST_CASE("decoding sequences have a row in every step, beside at least one of a prompt") {
  Rig rig({.max_step_tokens = 4, .max_running = 8});
  for (SequenceId id = 0; id < 6; ++id) rig.loop.admit(rig.spec(id, random_ask(id, 2, 40)));
  while (rig.outcomes.size() < 6) rig.step();
  rig.loop.admit(rig.spec(7, random_ask(7, 10, 2)));
  for (int i = 0; i < 9; ++i) {
    const StepReport report = rig.step();
    CHECK(report.decode_rows == 6);
    CHECK(report.prefill_rows == 1);
  }
  rig.run();
}

TEST_CASE("blocks are asked for while the last one is being filled and a grant is used") {
  Rig rig;
  Ask ask = random_ask(70, 20, 60);
  rig.loop.admit(rig.spec(0, ask, 32));  // two blocks: positions 0 to 31
  std::int32_t wanted_at = -1;
  while (!rig.outcomes[0].ended) {
    const std::int32_t before = rig.loop.progress(0);
    const StepReport report = rig.step(false);
    CHECK(report.tokens.size() == 1);  // it never pauses
    if (report.blocks_wanted > 0) {
      if (wanted_at < 0) wanted_at = before;
      CHECK(report.blocks_wanted <= 4);
      auto granted = rig.pools.reserve(1, 0);  // less than it asked for
      rig.loop.add_blocks(std::move(*granted));
    }
  }
  CHECK(wanted_at <= 20);
  CHECK(rig.outcomes[0].tokens == cold_answer(ask));
  rig.outcomes.clear();
  CHECK(rig.pools_empty());
}

TEST_CASE("a sequence whose reservation holds its whole answer asks for nothing") {
  Rig rig;
  Ask ask = random_ask(71, 20, 60);
  rig.loop.admit(rig.spec(0, ask));
  while (rig.loop.has_work()) CHECK(rig.step(false).blocks_wanted == 0);
}

TEST_CASE("blocks that nobody wants any more return at once") {
  Rig rig;
  rig.loop.admit(rig.spec(0, random_ask(72, 20, 60), 32));
  rig.step(false);
  rig.loop.add_blocks(std::move(*rig.pools.reserve(100, 0)));
  CHECK(rig.pools.usage().blocks_live <= 5);  // 79 positions
  CHECK(rig.pools.usage().blocks_reserved == 0);
  rig.loop.cancel(0);
  rig.loop.add_blocks(std::move(*rig.pools.reserve(100, 0)));
  rig.step();
  rig.outcomes.clear();
  CHECK(rig.pools_empty());
}

TEST_CASE("a sequence without a block pauses while others go on, and resumes unchanged") {
  Rig rig;
  const Ask small = random_ask(73, 10, 40);
  const Ask other = random_ask(74, 10, 60);
  rig.loop.admit(rig.spec(0, small, 16));
  rig.loop.admit(rig.spec(1, other));
  for (int i = 0; i < 20; ++i) CHECK(rig.step(false).preempted.empty());
  CHECK(rig.loop.progress(0) == 16);
  CHECK(rig.loop.progress(1) == 29);
  CHECK(rig.step(false).blocks_wanted > 0);
  rig.run();
  CHECK(rig.outcomes[0].tokens == cold_answer(small));
  CHECK(rig.outcomes[1].tokens == cold_answer(other));
}

TEST_CASE("when all pause the youngest goes and its blocks serve the older ones") {
  Rig rig({}, 8, 40);
  std::map<SequenceId, Ask> asks;
  for (SequenceId id = 0; id < 4; ++id) {
    asks[id] = random_ask(80 + id, 10, 40);
    rig.loop.admit(rig.spec(id, asks[id], 16));
  }
  for (int i = 0; i < 7; ++i) CHECK(rig.step(false).preempted.empty());
  const StepReport paused = rig.step(false);
  CHECK(paused.decode_rows == 0);
  CHECK(paused.preempted.empty());
  CHECK(paused.blocks_wanted == 4);
  const StepReport preempting = rig.step(false);
  REQUIRE(preempting.preempted.size() == 1);
  CHECK(preempting.preempted[0].id == 3);
  CHECK(preempting.preempted[0].generated == 7);
  CHECK(preempting.preempted[0].tokens->size() == 17);
  CHECK(rig.step(false).decode_rows == 1);  // the oldest has its block
}

TEST_CASE("a preempted sequence gives away no block that a cached state needs") {
  Rig rig;
  const Ask trunk = random_ask(85, 40, 30);
  SequenceSpec first = rig.spec(0, trunk);
  rig.save_at(first, 32);
  rig.loop.admit(std::move(first));
  rig.run();
  const SavedState cached = rig.outcomes[0].saved[0];
  rig.loop.admit(rig.spec(1, random_ask(86, 10, 40), 16));
  SequenceSpec victim = rig.resumed(2, trunk, cached);
  victim.lease.reservation = std::move(*rig.pools.reserve(1, 0));  // positions 32 to 47
  rig.loop.admit(std::move(victim));
  bool preempted = false;
  while (!preempted) preempted = !rig.step(false).preempted.empty();
  CHECK(rig.loop.progress(2) == -1);
  for (int i = 0; i < 15; ++i) rig.step(false);  // the older one writes into what it was given
  CHECK(rig.loop.progress(1) > 17);
  rig.loop.admit(rig.resumed(3, trunk, cached));
  rig.run();
  CHECK(rig.outcomes[3].tokens == cold_answer(trunk));
}

TEST_CASE("preemption is invisible in the answers") {
  for (const std::int64_t blocks : {7, 9, 12, 20}) {
    Rig rig({.max_step_tokens = 16}, blocks, 30);
    rig.keep_saved = false;
    std::map<SequenceId, Ask> asks;
    SequenceId next = 0;
    while (next < 12) {
      while (next < 12 && rig.loop.running() < 6 && rig.pools.reserve(2, 1).has_value()) {
        asks[next] = random_ask(90 + next, 10, 50);
        rig.loop.admit(rig.spec(next, asks[next], 16));
        ++next;
      }
      rig.run();
    }
    for (const auto& [id, ask] : asks) {
      INFO("blocks " << blocks << ", sequence " << id);
      CHECK(rig.outcomes[id].tokens == cold_answer(ask));
    }
    CHECK((rig.preemptions > 0) == (blocks < 20));
    rig.outcomes.clear();
    CHECK(rig.pools_empty());
  }
}
