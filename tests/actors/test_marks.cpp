// SPDX-License-Identifier: Apache-2.0
// Places that a client marks hold a state for whoever leaves the prompt right behind them.
#include <algorithm>

#include "tests/actors/tiny.hpp"

using namespace cairn;
using namespace cairn::tests;

namespace {

// A prompt that shares `shared` tokens with ids(320, 1).
std::vector<std::int32_t> leaving_at(std::size_t shared, std::int32_t seed) {
  auto prompt = ids(320, 1);
  prompt.resize(shared);
  const auto tail = ids(40, seed);
  // The first token differs, so that the overlap is `shared` exactly.
  prompt.push_back((ids(320, 1)[shared] + 1) % 128);
  prompt.insert(prompt.end(), tail.begin(), tail.end());
  return prompt;
}

std::int32_t cached_behind(const std::string& policy, std::vector<std::int32_t> marks,
                           std::size_t shared) {
  auto o = tiny();
  o.policy = policy;
  const auto engine = make_engine(o);
  GenerateRequest first = endless(ids(320, 1), 2);
  first.cache_positions = std::move(marks);
  const Answer marked = ask(*engine, first);
  REQUIRE_FALSE(marked.error);
  const Answer cold = ask(*engine, [&] {
    GenerateRequest r = endless(leaving_at(shared, 2), 4);
    r.use_cache = false;
    return r;
  }());
  const Answer warm = ask(*engine, endless(leaving_at(shared, 2), 4));
  CHECK(warm.tokens == cold.tokens);
  return warm.cached();
}

Answer chat(Engine& engine, const std::string& question, bool marked) {
  GenerateRequest r;
  ChatPrompt prompt;
  prompt.messages_json =
      R"([{"role":"user","content":[{"type":"text","text":"The key is in the old well, under the third stone. ")" +
      std::string(marked ? R"(,"cache_control":{"type":"ephemeral"})" : "") +
      R"(},{"type":"text","text":")" + question + R"("}]}])";
  r.prompt = prompt;
  r.max_tokens = 2;
  r.sampling.temperature = 0.F;
  const Answer answer = ask(engine, r);
  REQUIRE_FALSE(answer.error);
  return answer;
}

}  // namespace

TEST_CASE("a prompt that leaves another one right behind its mark resumes at the mark") {
  for (const char* policy : {"forest", "branch", "last", "block:64", "marconi"}) {
    CAPTURE(policy);
    CHECK(cached_behind(policy, {150, 277}, 151) == 150);
    CHECK(cached_behind(policy, {150, 277}, 278) == 277);
    CHECK(cached_behind(policy, {}, 151) != 150);
    CHECK(cached_behind(policy, {}, 278) != 277);
  }
  CHECK(cached_behind("none", {150}, 151) == 0);
}

TEST_CASE("a marked part of a chat message serves the next question behind it") {
  for (const bool marked : {true, false}) {
    auto o = tiny();
    o.model = "demo";
    o.policy = "branch";
    const auto engine = make_engine(o);
    const auto tokens = [&](const char* question) {
      return *engine->tokenize(ChatPrompt{
          R"([{"role":"user","content":"The key is in the old well, under the third stone. )" +
              std::string(question) + R"("}])",
          "",
          {},
          "",
          true});
    };
    const auto first = tokens("Where is it?"), second = tokens("Who has it?");
    const auto same = std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first;
    chat(*engine, "Where is it?", marked);
    const std::int32_t cached = chat(*engine, "Who has it?", marked).cached();
    CHECK(cached == (marked ? same - first.begin() : 0));
  }
}

TEST_CASE("a wrong mark is the request's own failure, found before any text") {
  const auto engine = make_engine(tiny());
  GenerateRequest r = endless(ids(20, 1), 2);
  r.cache_positions = {21};
  const Answer a = ask(*engine, r);
  REQUIRE(a.error);
  CHECK(a.error->code == ErrorCode::bad_request);
  CHECK(a.error->param == "cache_positions");
}
