// SPDX-License-Identifier: Apache-2.0
// A sequence's life: limits, cancels, failures, saves asked for on the way.
#include <algorithm>

#include "base/check.hpp"
#include "tests/engine/batch/harness.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;

TEST_CASE("an answer ends at max_new, at the context's end and at a stop token") {
  Ask ask = random_ask(30, 20, 12);
  const Tokens whole = cold_answer(ask);
  Rig rig;
  rig.loop.admit(rig.spec(0, ask));
  Ask short_context = ask;
  short_context.context_length = 25;
  rig.loop.admit(rig.spec(1, short_context));
  Ask stopping = ask;
  stopping.stop_ids = {whole[7]};
  rig.loop.admit(rig.spec(2, stopping));
  bool flagged = false;
  while (rig.loop.has_work()) {
    for (const auto& token : rig.step().tokens) {
      if (token.id == 2) CHECK(token.stop == (token.token == whole[7]));
      if (token.id == 2 && token.stop) flagged = true;
    }
  }
  CHECK(flagged);
  CHECK(rig.outcomes[0].tokens == whole);
  CHECK(rig.outcomes[0].reason == EndReason::length);
  CHECK(rig.outcomes[1].tokens == Tokens(whole.begin(), whole.begin() + 5));
  CHECK(rig.outcomes[1].reason == EndReason::length);
  CHECK(rig.outcomes[2].tokens == cold_answer(stopping));
  CHECK(rig.outcomes[2].reason == EndReason::stop);
}

TEST_CASE("a stop token that comes last ends the answer as stop") {
  Ask ask = random_ask(31, 10, 3);
  ask.stop_ids = {cold_answer(ask).back()};
  ask.max_new = static_cast<std::int32_t>(cold_answer(ask).size());
  Rig rig;
  rig.loop.admit(rig.spec(0, ask));
  rig.run();
  CHECK(rig.outcomes[0].reason == EndReason::stop);
}

TEST_CASE("max_new 0 runs the prompt, reports its log-probs and samples nothing") {
  Ask ask = random_ask(32, 20, 0);
  Rig rig;
  SequenceSpec spec = rig.spec(0, ask);
  spec.prompt_logprobs = true;
  rig.loop.admit(std::move(spec));
  rig.run();
  CHECK(rig.outcomes[0].tokens.empty());
  CHECK(rig.outcomes[0].prompt.size() == 19);
  CHECK(rig.outcomes[0].reason == EndReason::length);
  CHECK(rig.outcomes[0].saved.at(0).position == 20);
}

TEST_CASE("a cancel at every step gives all memory back and is reported once") {
  const Ask ask = random_ask(33, 70, 10);
  for (int at = 0; at < 18; ++at) {
    Rig rig({.max_step_tokens = 8});
    SequenceSpec spec = rig.spec(0, ask);
    for (const int p : {16, 30, 69}) rig.save_at(spec, p);
    rig.loop.admit(std::move(spec));
    const Ask other = random_ask(34, 5, 3);
    for (int i = 0; i < at; ++i) rig.step();
    REQUIRE_FALSE(rig.outcomes[0].ended);
    const std::int32_t progress = rig.loop.progress(0);
    rig.loop.cancel(0);
    rig.loop.admit(rig.spec(1, other));
    rig.loop.cancel(0);
    CHECK(rig.loop.has_work());
    {
      const StepReport report = rig.step();
      REQUIRE(report.ended.size() == 1);
      CHECK(report.ended[0].reason == EndReason::cancelled);
      CHECK(report.ended[0].in_prefill == (progress < 70));
    }
    CHECK(rig.loop.progress(0) == -1);
    rig.run();
    CHECK(rig.outcomes[1].tokens == cold_answer(other));
    rig.outcomes.clear();
    CHECK(rig.pools_empty());
  }
}

TEST_CASE("what a cancelled prompt had run can be resumed from") {
  const Ask ask = random_ask(35, 70, 10);
  Rig rig({.max_step_tokens = 9});
  rig.loop.admit(rig.spec(0, ask));
  rig.step();
  rig.loop.cancel(0);
  rig.step();
  CHECK(rig.outcomes[0].saved.empty());  // 9 tokens are not worth a state
  rig.loop.admit(rig.spec(1, ask));
  for (int i = 0; i < 3; ++i) rig.step();
  rig.loop.cancel(1);
  rig.step();
  REQUIRE(rig.outcomes[1].saved.size() == 1);
  const SavedState left = rig.outcomes[1].saved[0];
  CHECK(left.position == 27);
  CHECK(left.kind == StateKind::planned);
  rig.loop.admit(rig.resumed(2, ask, left));
  rig.run();
  CHECK(rig.outcomes[2].tokens == cold_answer(ask));
}

TEST_CASE("whatever a sequence saves carries the scope of its lease") {
  const Ask ask = random_ask(37, 40);
  Rig rig;
  SequenceSpec spec = rig.spec(0, ask);
  spec.lease.scope = "tenant";
  rig.save_at(spec, 20);
  rig.loop.admit(std::move(spec));
  CHECK(rig.loop.add_save(0, rig.planned_save(30)));
  rig.run();
  const auto& saved = rig.outcomes[0].saved;
  REQUIRE(saved.size() == 3);  // and the answer's end
  for (const SavedState& state : saved) CHECK(state.scope == "tenant");
}

TEST_CASE("an unpublished sequence saves nothing, whatever was planned") {
  const Ask ask = random_ask(36, 40);
  Rig rig;
  SequenceSpec spec = rig.spec(0, ask);
  rig.save_at(spec, 20);
  spec.lease.publish = false;
  rig.loop.admit(std::move(spec));
  CHECK_FALSE(rig.loop.add_save(0, rig.planned_save(30)));
  rig.run();
  CHECK(rig.outcomes[0].saved.empty());
  CHECK(rig.outcomes[0].tokens == cold_answer(ask));
  CHECK(rig.pools_empty());
}

TEST_CASE("a save can be added until its position has passed") {
  const Ask ask = random_ask(37, 60);
  Rig rig({.max_step_tokens = 10});
  SequenceSpec spec = rig.spec(0, ask);
  rig.save_at(spec, 35);
  rig.loop.admit(std::move(spec));
  CHECK(rig.loop.add_save(0, rig.planned_save(5)));
  rig.step();
  rig.step();
  CHECK(rig.loop.progress(0) == 20);
  CHECK_FALSE(rig.loop.add_save(0, rig.planned_save(20)));
  CHECK_FALSE(rig.loop.add_save(0, rig.planned_save(7)));
  CHECK_FALSE(rig.loop.add_save(0, rig.planned_save(61)));
  CHECK_FALSE(rig.loop.add_save(9, rig.planned_save(30)));
  CHECK(rig.loop.add_save(0, rig.planned_save(60)));
  CHECK(rig.loop.add_save(0, rig.planned_save(21)));
  CHECK(rig.loop.add_save(0, rig.planned_save(35)));  // comes anyway
  rig.run();
  std::vector<std::int32_t> positions;
  for (const auto& saved : rig.outcomes[0].saved) positions.push_back(saved.position);
  CHECK(positions == Tokens{5, 21, 35, 60, 67});
  const auto saved = rig.outcomes[0].saved;
  for (std::size_t i = 0; i < 3; ++i) {
    rig.loop.admit(rig.resumed(10 + i, ask, saved[i]));
  }
  rig.run();
  for (SequenceId id = 10; id < 13; ++id) CHECK(rig.outcomes[id].tokens == cold_answer(ask));
}

TEST_CASE("a row that is not a number fails its own sequence and no other") {
  for (const auto& [in_prompt, on_device] :
       {std::pair{true, false}, {false, false}, {true, true}, {false, true}}) {
    Rig rig({.max_step_tokens = 16}, 4096, 512, {.nan_token = 3, .samples_on_device = on_device});
    Ask good = random_ask(38, 33);
    const auto without = [](Tokens& tokens) { std::replace(tokens.begin(), tokens.end(), 3, 4); };
    without(good.prompt);
    good.sampling.logit_bias = {{3, -1e9F}};
    Ask bad = good;
    if (in_prompt) {
      bad.prompt.back() = 3;
    } else {
      bad.sampling.logit_bias = {{3, 1e9F}};
    }
    rig.loop.admit(rig.spec(0, good));
    rig.loop.admit(rig.spec(1, bad));
    rig.run();
    CHECK(rig.outcomes[0].tokens == cold_answer(good));
    CHECK(rig.outcomes[0].reason == EndReason::length);
    CHECK(rig.outcomes[1].reason == EndReason::failed);
    CHECK(rig.outcomes[1].error.code == ErrorCode::internal);
    CHECK(rig.outcomes[1].error.message.find("not finite") != std::string::npos);
    CHECK(rig.outcomes[1].tokens.size() == (in_prompt ? 0 : 1));
    CHECK(rig.outcomes[1].saved.empty());
    rig.outcomes.clear();
    CHECK(rig.pools_empty());
  }
}

TEST_CASE("a failing device is an exception out of step and the loop can be destroyed") {
  auto rig =
      std::make_unique<Rig>(engine::BatchOptions{}, 4096, 512, FakeOptions{.fail_at_step = 1});
  rig->loop.admit(rig->spec(0, random_ask(39, 10)));
  rig->step();
  CHECK_THROWS_AS(rig->loop.step(), DeviceError);
}

TEST_CASE("an idle loop has no work and its step is empty") {
  Rig rig;
  CHECK_FALSE(rig.loop.has_work());
  CHECK(rig.loop.running() == 0);
  rig.loop.cancel(4);
  rig.loop.cancel_all();
  const StepReport report = rig.step();
  CHECK(report.tokens.empty());
  CHECK(report.ended.empty());
  CHECK(report.blocks_wanted == 0);
  CHECK(rig.loop.progress(4) == -1);
}

TEST_CASE("cancel_all ends everything in the next report") {
  Rig rig;
  for (SequenceId id = 0; id < 5; ++id) rig.loop.admit(rig.spec(id, random_ask(id, 20)));
  rig.step();
  rig.loop.cancel_all();
  CHECK(rig.loop.running() == 0);
  CHECK(rig.loop.has_work());
  CHECK(rig.step().ended.size() == 5);
  CHECK_FALSE(rig.loop.has_work());
}

TEST_CASE("more sequences than may run, and one id twice, are our mistakes") {
  Rig rig({.max_running = 2});
  rig.loop.admit(rig.spec(0, random_ask(0, 20)));
  CHECK_THROWS_AS(rig.loop.admit(rig.spec(0, random_ask(0, 20))), InvariantError);
  rig.loop.admit(rig.spec(1, random_ask(1, 20)));
  CHECK_THROWS_AS(rig.loop.admit(rig.spec(2, random_ask(2, 20))), InvariantError);
  rig.loop.cancel(0);
  rig.loop.admit(rig.spec(2, random_ask(2, 20)));  // its place is free at once
  rig.run();
}
