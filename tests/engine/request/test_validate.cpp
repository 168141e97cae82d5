// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include "engine/request/validate.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using engine::answer_room;
using engine::check_prompt_logprobs;
using engine::RequestLimits;
using engine::validate;

namespace {

const RequestLimits kLimits{.vocab_size = 100, .context_length = 32};

GenerateRequest good() {
  GenerateRequest request;
  request.prompt = std::vector<std::int32_t>{1, 2, 3};
  request.max_tokens = 4;
  return request;
}

template <class Change>
Error refused(Change change) {
  auto request = good();
  change(request);
  const auto status = validate(request, kLimits);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message.back() == '.');
  return status.error();
}

template <class Change>
void accepted(Change change) {
  auto request = good();
  change(request);
  const auto status = validate(request, kLimits);
  INFO((status.ok() ? "" : status.error().message));
  CHECK(status.ok());
}

}  // namespace

TEST_CASE("a plain request is valid") {
  CHECK(validate(good(), kLimits).ok());
  auto text = good();
  text.prompt = TextPrompt{"hello"};
  CHECK(validate(text, kLimits).ok());
}

TEST_CASE("sampling values out of range are refused by name") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(refused([](auto& r) { r.sampling.temperature = -0.1F; }).param == "temperature");
  CHECK(refused([&](auto& r) { r.sampling.temperature = nan; }).param == "temperature");
  CHECK(refused([&](auto& r) { r.sampling.temperature = inf; }).param == "temperature");
  CHECK(refused([](auto& r) { r.sampling.top_p = 1.5F; }).message ==
        "top_p must be at least 0 and at most 1, not 1.5.");
  CHECK(refused([](auto& r) { r.sampling.min_p = -1; }).param == "min_p");
  CHECK(refused([](auto& r) { r.sampling.top_k = -2; }).param == "top_k");
  CHECK(refused([](auto& r) { r.sampling.repetition_penalty = 0; }).param == "repetition_penalty");
  CHECK(refused([](auto& r) { r.sampling.presence_penalty = 3; }).param == "presence_penalty");
  CHECK(refused([](auto& r) { r.sampling.frequency_penalty = -3; }).param == "frequency_penalty");
  CHECK(refused([](auto& r) { r.sampling.logit_bias = {{5, 101}}; }).param == "logit_bias");
  CHECK(refused([](auto& r) { r.sampling.logit_bias = {{100, 1}}; }).param == "logit_bias");
  CHECK(refused([](auto& r) { r.sampling.logit_bias = {{-1, 1}}; }).param == "logit_bias");
  accepted([](auto& r) { r.sampling = {0.0F, 0, 1.0F, 0.0F, 1.0F, -2.0F, 2.0F, 7, {{99, -100}}}; });
}

TEST_CASE("counts out of range are refused by name") {
  CHECK(refused([](auto& r) { r.n = 0; }).param == "n");
  CHECK(refused([](auto& r) { r.n = 17; }).message == "n must be between 1 and 16, not 17.");
  CHECK(refused([](auto& r) { r.max_tokens = 0; }).param == "max_tokens");
  CHECK(refused([](auto& r) { r.max_tokens = -5; }).param == "max_tokens");
  CHECK(refused([](auto& r) { r.logprobs = 21; }).param == "logprobs");
  CHECK(refused([](auto& r) {
          r.logprobs = 21;
          r.endpoint = "chat";
        }).param == "top_logprobs");
  CHECK(refused([](auto& r) { r.timeout = std::chrono::milliseconds(0); }).param == "timeout");
}

TEST_CASE("stop strings and ids are checked") {
  CHECK(refused([](auto& r) { r.stop = {"a", ""}; }).param == "stop");
  CHECK(refused([](auto& r) { r.stop.assign(17, "x"); }).param == "stop");
  CHECK(refused([](auto& r) { r.stop = {std::string(5000, 'x')}; }).param == "stop");
  CHECK(refused([](auto& r) { r.stop = {"\xff"}; }).param == "stop");
  CHECK(refused([](auto& r) { r.stop_token_ids = {100}; }).param == "stop_token_ids");
  accepted([](auto& r) { r.stop.assign(16, "x"); });
}

TEST_CASE("E7 B27 a prompt beyond the context is refused with both numbers") {
  const auto error = refused([](auto& r) { r.prompt = std::vector<std::int32_t>(40, 1); });
  CHECK(error.code == ErrorCode::context_overflow);
  CHECK(error.message.find("maximum context length is 32 tokens") != std::string::npos);
  CHECK(error.message.find("44 tokens (40 in the prompt, 4 in the completion)") !=
        std::string::npos);
  CHECK(refused([](auto& r) { r.prompt = std::vector<std::int32_t>{1, 100}; }).param == "prompt");
  CHECK(refused([](auto& r) { r.prompt = std::vector<std::int32_t>{}; }).code ==
        ErrorCode::bad_request);
}

TEST_CASE("log-probs of a prompt beyond the limit are refused with both numbers") {
  RequestLimits limits = kLimits;
  limits.max_prompt_logprobs = 12;
  auto request = good();
  request.prompt_logprobs = true;
  request.logprobs = 3;  // 3 tokens * (1 + 3)
  CHECK(validate(request, limits).ok());
  request.n = 2;
  auto status = validate(request, limits);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::bad_request);
  CHECK(status.error().param == "logprobs");
  CHECK(status.error().message.find("24 entries") != std::string::npos);
  CHECK(status.error().message.find("limit is 12") != std::string::npos);
  request.prompt_logprobs = false;
  CHECK(validate(request, limits).ok());
  CHECK(check_prompt_logprobs(262'144, -1, RequestLimits{}).ok());
  CHECK(check_prompt_logprobs(262'144, 0, RequestLimits{}).ok());
  CHECK_FALSE(check_prompt_logprobs(262'145, 0, RequestLimits{}).ok());
  CHECK_FALSE(check_prompt_logprobs(INT32_MAX, 20, RequestLimits{}, 16).ok());
}

TEST_CASE("the answer's room is what was asked for or what the context leaves") {
  CHECK(answer_room(10, 5, 32).value() == 5);
  CHECK(answer_room(10, std::nullopt, 32).value() == 22);
  CHECK(answer_room(31, std::nullopt, 32).value() == 1);
  CHECK(answer_room(28, 4, 32).value() == 4);
  CHECK(answer_room(29, 4, 32).error().code == ErrorCode::context_overflow);
  CHECK(answer_room(32, std::nullopt, 32).error().code == ErrorCode::context_overflow);
  CHECK(answer_room(2'000'000'000, 2'000'000'000, 32).error().code == ErrorCode::context_overflow);
}

TEST_CASE("marked positions are few and inside the prompt, and a chat has none") {
  RequestLimits limits;
  limits.vocab_size = 100;
  limits.context_length = 100;
  const auto with = [&](Prompt prompt, std::vector<std::int32_t> positions) {
    GenerateRequest r;
    r.prompt = std::move(prompt);
    r.max_tokens = 1;
    r.cache_positions = std::move(positions);
    const Status status = engine::validate(r, limits);
    if (!status.ok()) CHECK(status.error().param == "cache_positions");
    return status.ok();
  };
  const std::vector<std::int32_t> ids{1, 2, 3};
  CHECK(with(ids, {1, 3}));
  CHECK_FALSE(with(ids, {4}));
  CHECK_FALSE(with(ids, {0}));
  CHECK_FALSE(with(ids, {-1}));
  CHECK(with(ids, std::vector<std::int32_t>(16, 2)));
  CHECK_FALSE(with(ids, std::vector<std::int32_t>(17, 2)));
  CHECK(with(TextPrompt{"a"}, {50}));  // known once it is tokenized
  CHECK_FALSE(with(ChatPrompt{}, {1}));
}

TEST_CASE("a prompt that does not fit names the field that it came in") {
  CHECK(std::string(engine::prompt_field(ChatPrompt{})) == "messages");
  CHECK(std::string(engine::prompt_field(TextPrompt{})) == "prompt");
  CHECK(answer_room(40, 1, 32, "messages").error().param == "messages");
}
