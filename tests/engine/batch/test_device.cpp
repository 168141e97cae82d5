// SPDX-License-Identifier: Apache-2.0
// Sampling where the logits are, and memory of the device's.
#include "tests/engine/batch/harness.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

constexpr FakeOptions kDevice{.samples_on_device = true};

struct Traffic {
  int requests = 12;
  bool logprobs = false;
};

void admit(Rig& rig, const Traffic& traffic) {
  for (int i = 0; i < traffic.requests; ++i) {
    SequenceSpec spec = rig.spec(static_cast<SequenceId>(i),
                                 random_ask(static_cast<std::uint64_t>(200 + i), 5 + 7 * i, 9));
    if (traffic.logprobs && i % 3 == 0) spec.logprobs = 2;
    if (traffic.logprobs && i % 4 == 0) spec.prompt_logprobs = true;
    rig.loop.admit(std::move(spec));
  }
}

bool same(const model::TokenLogprobs& a, const model::TokenLogprobs& b) {
  const auto equal = [](const model::TokenLogprob& x, const model::TokenLogprob& y) {
    return x.token == y.token && x.logprob == y.logprob;
  };
  return equal(a.chosen, b.chosen) &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(), equal);
}

void require_same(const Outcome& a, const Outcome& b) {
  REQUIRE(a.tokens == b.tokens);
  REQUIRE(a.reason == b.reason);
  REQUIRE(a.first_token_step == b.first_token_step);
  REQUIRE(
      std::equal(a.logprobs.begin(), a.logprobs.end(), b.logprobs.begin(), b.logprobs.end(), same));
  REQUIRE(std::equal(a.prompt.begin(), a.prompt.end(), b.prompt.begin(), b.prompt.end(), same));
}

}  // namespace

TEST_CASE("a device that samples gives the answers and log-probs of the host's sampler") {
  for (const bool logprobs : {false, true}) {
    const engine::BatchOptions options{.max_step_tokens = 24};
    Rig host(options), device(options, 4096, 512, kDevice);
    for (Rig* rig : {&host, &device}) {
      admit(*rig, {.logprobs = logprobs});
      rig->run();
    }
    CHECK(host.steps == device.steps);
    for (const auto& [id, outcome] : host.outcomes) require_same(outcome, device.outcomes.at(id));
    CHECK(host.backend.rows_sampled() == 0);
    CHECK(device.backend.rows_sampled() == 12 * 9);
  }
}

TEST_CASE("logits leave the device only in steps whose log-probs are asked for") {
  Rig rig({.max_step_tokens = 24}, 4096, 512, kDevice);
  admit(rig, {});
  rig.run();
  CHECK(rig.backend.logits_reads() == 0);

  SequenceSpec spec = rig.spec(100, random_ask(7, 20, 5));
  spec.logprobs = 0;
  rig.loop.admit(std::move(spec));
  rig.loop.admit(rig.spec(101, random_ask(8, 20, 30)));
  rig.run();
  CHECK(rig.backend.logits_reads() == 5);

  SequenceSpec prompt = rig.spec(102, random_ask(9, 50, 0));
  prompt.prompt_logprobs = true;
  rig.loop.admit(std::move(prompt));
  rig.run();
  CHECK(rig.backend.logits_reads() == 5 + 3);  // chunks of 24 rows
}

TEST_CASE("one restore in 16 is timed on a device, once all before it and then it itself is done") {
  // Notes which state copies had begun when something waited.
  struct Waited final : model::Arena {
    std::byte* data() const override { return nullptr; }
    std::size_t size() const override { return 0; }
    void read(const std::byte*, std::span<std::byte>) override {
      copies.push_back(backend->states_copied());
    }
    void write(std::span<const std::byte>, std::byte*) override {}
    FakeBackend* backend = nullptr;
    std::vector<std::int64_t> copies;
  } arena;
  Rig rig({.arena = &arena});
  arena.backend = &rig.backend;
  const Ask ask = random_ask(13, 50);
  SequenceSpec first = rig.spec(0, ask);
  rig.save_at(first, 32);
  rig.loop.admit(std::move(first));
  rig.run();
  CHECK(arena.copies.empty());
  const SavedState saved = rig.outcomes[0].saved[0];
  for (SequenceId id = 1; id <= 17; ++id) {
    rig.loop.admit(rig.resumed(id, ask, saved));
    const StepReport report = rig.step();
    CHECK(report.restores == (id % 16 == 1 ? 1 : 0));
    CHECK((report.restore_seconds > 0) == (id % 16 == 1));
    rig.run();
    CHECK(rig.outcomes[id].tokens == cold_answer(ask));
  }
  CHECK(arena.copies == std::vector<std::int64_t>{0, 1, 16, 17});
}

TEST_CASE("on a device whose arena is too small for all, every answer is the cold one") {
  FakeOptions fake = kDevice;
  fake.arena_bytes_free = 40 * 256;  // slabs of one state or one block
  Rig rig({.max_step_tokens = 24, .max_running = 4}, 0, 0, fake);
  rig.keep_saved = false;
  for (int i = 0; i < 4; ++i) {
    const Ask ask = random_ask(static_cast<std::uint64_t>(300 + i), 60, 120);
    rig.loop.admit(rig.spec(static_cast<SequenceId>(i), ask, 60));
  }
  rig.run();
  for (int i = 0; i < 4; ++i) {
    const Ask ask = random_ask(static_cast<std::uint64_t>(300 + i), 60, 120);
    CHECK(rig.outcomes[static_cast<SequenceId>(i)].tokens == cold_answer(ask));
  }
  CHECK(rig.preemptions > 0);
  CHECK(rig.pools_empty());
}
