// SPDX-License-Identifier: Apache-2.0
// What the batch must not change: the answer.
#include "tests/engine/batch/harness.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;

TEST_CASE("sequences of a batch of one to eight answer as they do alone") {
  for (int batch = 1; batch <= 8; ++batch) {
    Rig rig({.max_step_tokens = 37});
    std::vector<Ask> asks;
    for (int i = 0; i < batch; ++i) {
      asks.push_back(random_ask(static_cast<std::uint64_t>(100 * batch + i), 3 + 23 * i, 5 + i));
      rig.loop.admit(rig.spec(static_cast<SequenceId>(i), asks.back()));
    }
    rig.run();
    for (int i = 0; i < batch; ++i) {
      INFO("batch " << batch << ", sequence " << i);
      const Outcome& out = rig.outcomes[static_cast<SequenceId>(i)];
      CHECK(out.tokens == cold_answer(asks[static_cast<std::size_t>(i)]));
      CHECK(out.reason == EndReason::length);
    }
    rig.outcomes.clear();
    CHECK(rig.pools_empty());
  }
}

TEST_CASE("sequences that come and go leave one another's answers alone") {
  Rig rig({.max_step_tokens = 24, .max_running = 5});
  std::mt19937_64 rng(4);
  std::map<SequenceId, Ask> asks;
  for (SequenceId id = 0; id < 40;) {
    while (id < 40 && rig.loop.running() < 5 && rng() % 3) {
      asks[id] = random_ask(id, static_cast<int>(rng() % 90 + 1), static_cast<int>(rng() % 9 + 1));
      rig.loop.admit(rig.spec(id, asks[id]));
      ++id;
    }
    rig.step();
  }
  rig.run();
  for (const auto& [id, ask] : asks) CHECK(rig.outcomes[id].tokens == cold_answer(ask));
}

TEST_CASE("a prompt cut into chunks of any size answers as the whole") {
  const Ask ask = random_ask(7, 53);
  const Tokens whole = cold_answer(ask);
  for (int chunk = 1; chunk <= 60; ++chunk) {
    Rig rig({.max_step_tokens = chunk});
    rig.loop.admit(rig.spec(1, ask));
    rig.run();
    CHECK(rig.outcomes[1].tokens == whole);
    for (const FakeStep& step : rig.backend.steps()) CHECK(step.rows <= chunk);
  }
}

TEST_CASE("a state saved at any position resumes to the same answer, in any chunk size") {
  const Ask ask = random_ask(11, 50);
  const Tokens whole = cold_answer(ask);
  for (const int chunk : {1, 7, 16, 64}) {
    Rig rig({.max_step_tokens = chunk});
    SequenceSpec first = rig.spec(0, ask);
    for (int p = 1; p < 50; ++p) rig.save_at(first, p);
    rig.loop.admit(std::move(first));
    rig.run();
    REQUIRE(rig.outcomes[0].tokens == whole);
    const std::vector<SavedState> saved = rig.outcomes[0].saved;
    REQUIRE(saved.size() == 50);  // every position, and the answer's end
    for (int p = 1; p < 50; ++p) {
      const SavedState& from = saved[static_cast<std::size_t>(p - 1)];
      INFO("chunk " << chunk << ", resumed at " << p);
      CHECK(from.position == p);
      CHECK(from.kind == StateKind::planned);
      CHECK(from.blocks.size() == static_cast<std::size_t>(engine::blocks_for(p)));
      const auto id = static_cast<SequenceId>(p);
      rig.loop.admit(rig.resumed(id, ask, from));
      rig.run();
      CHECK(rig.outcomes[id].tokens == whole);
    }
  }
}

TEST_CASE("forks of one state inside a block do not write into each other") {
  const Ask trunk = random_ask(12, 60);
  Rig rig({.max_step_tokens = 9});
  SequenceSpec first = rig.spec(0, trunk);
  rig.save_at(first, 37, StateKind::branch);
  rig.loop.admit(std::move(first));
  while (rig.outcomes[0].saved.empty()) rig.step();
  const SavedState fork = rig.outcomes[0].saved.front();
  std::map<SequenceId, Ask> asks;
  for (SequenceId id = 1; id <= 6; ++id) {  // beside the trunk, which goes on in the shared block
    asks[id] = random_ask(20 + id, 10);
    asks[id].prompt.insert(asks[id].prompt.begin(), trunk.prompt.begin(),
                           trunk.prompt.begin() + 37);
    rig.loop.admit(rig.resumed(id, asks[id], fork));
  }
  rig.run();
  CHECK(rig.outcomes[0].tokens == cold_answer(trunk));
  for (const auto& [id, ask] : asks) CHECK(rig.outcomes[id].tokens == cold_answer(ask));
}

TEST_CASE("a restore copies one state, and the first slots of a block only inside one") {
  const Ask ask = random_ask(13, 50);
  Rig rig;
  SequenceSpec first = rig.spec(0, ask);
  rig.save_at(first, 32);
  rig.save_at(first, 41);
  rig.loop.admit(std::move(first));
  rig.run();
  const auto saved = rig.outcomes[0].saved;
  const auto live = [&] { return rig.pools.usage().blocks_live; };
  const auto before = live();
  rig.loop.admit(rig.resumed(1, ask, saved[0]));
  StepReport report = rig.step();
  CHECK(report.restores == 1);
  CHECK(rig.backend.states_copied() == 1);
  CHECK(live() - before == 2);  // positions 32 to 50
  rig.loop.cancel(1);
  rig.step();
  rig.outcomes[1] = {};
  rig.loop.admit(rig.resumed(2, ask, saved[1]));
  rig.step();
  CHECK(live() - before == 2);  // 41 to 48 in a private copy, then 48 to 50
  rig.run();
  CHECK(rig.outcomes[2].tokens == cold_answer(ask));
}

TEST_CASE("the state handed over at an answer's end goes on in the next turn") {
  for (const std::int32_t answer : {1, 2, 9, 20}) {
    const Ask ask = random_ask(14, 30, answer);
    Rig rig;
    rig.loop.admit(rig.spec(0, ask));
    rig.run();
    REQUIRE(rig.outcomes[0].saved.size() == 1);
    const SavedState end = rig.outcomes[0].saved[0];
    CHECK(end.kind == StateKind::answer_end);
    CHECK(end.position == 30 + answer - 1);  // the last token was sampled, not run
    Ask next = random_ask(15, 12);
    const Tokens& own = rig.outcomes[0].tokens;
    next.prompt.insert(next.prompt.begin(), own.begin(), own.end());
    next.prompt.insert(next.prompt.begin(), ask.prompt.begin(), ask.prompt.end());
    CHECK(std::equal(end.tokens->begin(), end.tokens->begin() + end.position, next.prompt.begin()));
    rig.loop.admit(rig.resumed(1, next, end));
    rig.run();
    CHECK(rig.outcomes[1].tokens == cold_answer(next));
  }
}

TEST_CASE("handing a state over copies nothing") {
  Rig rig;
  rig.loop.admit(rig.spec(0, random_ask(14, 30)));
  rig.run();
  CHECK(rig.backend.states_copied() == 0);
  CHECK(rig.pools.usage().states_live == 1);
}

TEST_CASE("log-probs of prompt and answer do not depend on chunks or company") {
  Ask ask = random_ask(16, 150, 6);
  std::vector<Outcome> outcomes;
  for (const int chunk : {1, 10, 64, 512}) {
    Rig rig({.max_step_tokens = chunk});
    SequenceSpec spec = rig.spec(0, ask);
    spec.logprobs = 3;
    spec.prompt_logprobs = true;
    rig.loop.admit(std::move(spec));
    if (chunk == 10) rig.loop.admit(rig.spec(1, random_ask(17, 40)));
    rig.run();
    outcomes.push_back(rig.outcomes[0]);
  }
  for (const Outcome& out : outcomes) {
    REQUIRE(out.prompt.size() == 149);
    REQUIRE(out.logprobs.size() == 6);
    CHECK(out.tokens == cold_answer(ask));
    for (std::size_t i = 0; i < out.prompt.size(); ++i) {
      CHECK(out.prompt[i].chosen.token == ask.prompt[i + 1]);
      CHECK(out.prompt[i].chosen.logprob == outcomes[0].prompt[i].chosen.logprob);
      CHECK(out.prompt[i].top.size() == 3);
    }
    for (std::size_t i = 0; i < out.logprobs.size(); ++i) {
      CHECK(out.logprobs[i].chosen.token == out.tokens[i]);
      CHECK(out.logprobs[i].chosen.logprob == outcomes[0].logprobs[i].chosen.logprob);
      CHECK(out.logprobs[i].top[2].logprob == outcomes[0].logprobs[i].top[2].logprob);
    }
  }
}

TEST_CASE("all prompts with log-probs together get 64 rows of a step, the oldest first") {
  Rig rig({.max_step_tokens = 512});
  const Ask plain = random_ask(20, 100);
  for (SequenceId id = 0; id < 3; ++id) {
    SequenceSpec spec = rig.spec(id, random_ask(21 + id, 50));
    spec.logprobs = 1;
    spec.prompt_logprobs = true;
    rig.loop.admit(std::move(spec));
  }
  rig.loop.admit(rig.spec(3, plain));
  CHECK(rig.step().prefill_rows == 64 + 100);
  CHECK(rig.loop.progress(0) == 50);
  CHECK(rig.loop.progress(1) == 14);
  CHECK(rig.loop.progress(2) == 0);
  CHECK(rig.step().prefill_rows == 64);
  rig.run();
  for (SequenceId id = 0; id < 3; ++id) {
    CHECK(rig.outcomes[id].prompt.size() == 49);
    CHECK(rig.outcomes[id].tokens == cold_answer(random_ask(21 + id, 50)));
  }
  CHECK(rig.outcomes[3].tokens == cold_answer(plain));
}
