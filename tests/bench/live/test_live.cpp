// SPDX-License-Identifier: Apache-2.0
// The measurements of a running engine, on the embedded model: everything but the times.
#include <algorithm>

#include "bench/live/chat.hpp"
#include "bench/live/copies.hpp"
#include "bench/live/solve.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::bench;

TEST_CASE("Both sides of a chat answer alike, compute only what is new, and are timed every turn") {
  ChatOptions options;
  options.model = "demo";
  options.threads = 1;
  options.cache_bytes = 256 << 20;
  options.chats = 2;
  options.turns = 4;
  options.opening = 50;
  options.message = 20;
  options.answer = 3;
  const ChatResult r = measure_chat(options);
  CHECK(r.different == 0);
  for (const ChatResult::Side* side : {&r.last, &r.forest}) {
    CHECK(side->seconds.size() == 8);
    CHECK(*std::min_element(side->seconds.begin(), side->seconds.end()) > 0);
    CHECK(side->prompts == 2 * (50 + 73 + 96 + 119 + 142));  // the answers are part of the chat
    // The state of an answer's end lacks its last token only.
    CHECK(side->computed == 2 * (50 + 4 * 21));
    CHECK(side->stored >= 2 * 5);
  }
}

TEST_CASE("Every state copied out of a prompt is counted, and every restore timed") {
  CopiesOptions options;
  options.model = "demo";
  options.threads = 1;
  options.cache_bytes = 64 << 20;
  options.pairs = 3;
  options.prompt = 32;
  options.apart = 4;
  options.restores = 5;
  const CopiesResult r = measure_copies(options);
  CHECK(r.states_a_prompt == 8);  // at 4 to 28 and 31
  CHECK(r.state_bytes > 0);
  CHECK(r.save_fresh.size() == 3);
  CHECK(r.save_used.size() == 6);
  REQUIRE(r.restore.size() == 5);
  CHECK(*std::min_element(r.restore.begin(), r.restore.end()) > 0);
  CHECK(r.copy_fresh > 0);
  CHECK(r.copy_used > 0);
  CHECK(r.copy_alone > 0);
}

TEST_CASE("A copy that noise made cheaper than nothing counts as missed") {
  CopiesResult r;
  r.state_bytes = 1000;
  r.save_fresh = r.save_used = r.restore = {1e-6, 1.5e-6, 9e-6};
  r.copy_fresh = r.copy_used = r.copy_alone = 1e-6;
  const auto missed = [](const CopiesResult& result) {
    const Findings findings = findings_of(result);
    return std::count_if(findings.begin(), findings.end(),
                         [](const Finding& f) { return f.missed(); });
  };
  CHECK(missed(r) == 0);
  r.save_used = {-1e-6, -1e-6, 9e-6};
  CHECK(missed(r) == 1);
  r.restore = {1e-6, 1.6e-6, 9e-6};
  CHECK(missed(r) == 2);
}

TEST_CASE("The solver does solve beside the steps that it is to slow down") {
  SolveOptions options;
  options.model = "demo";
  options.pairs = 2;
  options.prompt = 4;
  options.answer = 40;
  options.nodes = 200;
  const SolveResult r = measure_solve(options);
  REQUIRE(r.quiet.size() == 2);
  REQUIRE(r.beside.size() == 2);
  CHECK(r.quiet[0] > 0);
  CHECK(r.beside[1] > 0);
  CHECK(r.solves > 0);
}
