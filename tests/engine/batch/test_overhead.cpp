// SPDX-License-Identifier: Apache-2.0
// Run by name only: test_engine_batch "[time]".
#include <cstdio>

#include "bench/timing.hpp"
#include "tests/engine/batch/harness.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;
using cairn::bench::processor_seconds;

TEST_CASE("a step of eight decoding sequences costs under 20 us around the model", "[.][time]") {
  constexpr int kSteps = 20'000;
  Rig rig({.max_running = 8}, 1 << 17, 64,
          {.vocab_size = 16, .sampled_vocab = 16, .attention_in_logits = false});
  rig.backend.forget_steps(true);
  for (SequenceId id = 0; id < 8; ++id) {
    Ask ask;
    ask.prompt = random_tokens(id, 100, 16);
    ask.max_new = kSteps + 100;
    ask.sampling.temperature = 0;
    rig.loop.admit(rig.spec(id, ask));
  }
  for (int i = 0; i < 50; ++i) rig.loop.step();
  const double start = processor_seconds();
  for (int i = 0; i < kSteps; ++i) rig.loop.step();
  const double us = (processor_seconds() - start) / kSteps * 1e6;
  std::printf("%.2f us a step, model of hashes and sampling of 16 ids included\n", us);
  CHECK(us < 20);
}
