// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/request/openai_answer.hpp"
#include "engine/request/openai_objects.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine::openai;
using json::Value;

namespace {

Value read(const std::string& text) {
  auto value = json::parse(text);
  INFO(text);
  REQUIRE(value.ok());
  return value.take();
}

// "choices.0.delta.content"
const Value& at(const Value& root, const std::string& path) {
  const Value* value = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    const auto name = path.substr(begin, end - begin);
    if (value->is(json::Kind::array)) {
      REQUIRE(std::stoul(name) < value->items().size());
      value = &value->items()[std::stoul(name)];
    } else {
      value = value->find(name);
      INFO(path);
      REQUIRE(value);
    }
    begin = end + 1;
  }
  return *value;
}

ResponseSettings settings(bool chat, bool stream) {
  ResponseSettings s;
  s.chat = chat;
  s.stream = stream;
  return s;
}

const AnswerIdentity kIdentity{"id-1", 1700000000, "demo"};

Delta text(const std::string& words, std::int32_t choice = 0) {
  Delta delta;
  delta.choice = choice;
  delta.text = words;
  return delta;
}

TokenInfo token(const std::string& bytes, float logprob, std::vector<TokenLogprob> top = {}) {
  return {{1, logprob, bytes}, std::move(top)};
}

Finished finished(std::int32_t prompt, std::int32_t completion, std::int32_t cached) {
  Finished end;
  end.usage.prompt_tokens = prompt;
  end.usage.completion_tokens = completion;
  end.usage.cached_tokens = cached;
  end.usage.seed = 12345678901234567890U;
  return end;
}

void plain(Answer& answer) {
  answer.add(0, Started{5, 2, 9, {}});
  answer.add(0, text("Hel"));
  answer.add(0, text(""));
  answer.add(0, text("lo"));
  answer.add(0, ChoiceFinished{0, FinishReason::length});
  answer.add(0, finished(5, 2, 2));
}

}  // namespace

TEST_CASE("B8 B9 a whole chat answer reports the full prompt and its cached part") {
  Answer answer(settings(true, false), kIdentity, 1);
  plain(answer);
  CHECK(answer.ended());
  CHECK(answer.take_chunks().empty());
  const auto body = read(answer.body());
  CHECK(at(body, "object").text() == "chat.completion");
  CHECK(at(body, "id").text() == "id-1");
  CHECK(at(body, "model").text() == "demo");
  CHECK(at(body, "choices.0.message.role").text() == "assistant");
  CHECK(at(body, "choices.0.message.content").text() == "Hello");
  CHECK(at(body, "choices.0.finish_reason").text() == "length");
  CHECK(at(body, "choices.0.logprobs").is(json::Kind::null));
  CHECK(at(body, "usage.prompt_tokens").as_int() == 5);
  CHECK(at(body, "usage.total_tokens").as_int() == 7);
  CHECK(at(body, "usage.prompt_tokens_details.cached_tokens").as_int() == 2);
  CHECK(at(body, "timings.seed").text() == "12345678901234567890");
}

TEST_CASE("a text completion has its own shape") {
  Answer answer(settings(false, false), kIdentity, 1);
  plain(answer);
  const auto body = read(answer.body());
  CHECK(at(body, "object").text() == "text_completion");
  CHECK(at(body, "choices.0.text").text() == "Hello");
}

TEST_CASE("asked for, a choice tells its tokens, whole and each with its part of a stream") {
  const auto fill = [](Answer& answer) {
    answer.add(0, Started{3, 0, 1, {}});
    Delta silent;
    silent.tokens = {7};
    answer.add(0, silent);
    Delta loud = text("Hello");
    loud.tokens = {8, 9};
    answer.add(0, loud);
    answer.add(0, ChoiceFinished{0, FinishReason::length});
    answer.add(0, Finished{});
  };
  auto asked = settings(false, false);
  asked.token_ids = true;
  Answer whole(asked, kIdentity, 1);
  fill(whole);
  CHECK(json::parse(whole.body())->find("choices")->items()[0].find("token_ids")->items().size() ==
        3);
  asked.stream = true;
  Answer streamed(asked, kIdentity, 1);
  fill(streamed);
  const auto chunks = streamed.take_chunks();
  REQUIRE(chunks.size() == 3);
  CHECK(at(read(chunks[0]), "choices.0.token_ids.0").text() == "7");
  CHECK(at(read(chunks[0]), "choices.0.text").text().empty());
  CHECK(at(read(chunks[1]), "choices.0.token_ids.1").text() == "9");
  CHECK(at(read(chunks[2]), "choices.0.token_ids").items().empty());
  Answer unasked(settings(false, true), kIdentity, 1);
  fill(unasked);
  const auto plain_chunks = unasked.take_chunks();
  REQUIRE(plain_chunks.size() == 2);
  CHECK_FALSE(at(read(plain_chunks[0]), "choices.0").find("token_ids"));
}

TEST_CASE("a chat stream begins with the role and ends with the reason and no usage") {
  Answer answer(settings(true, true), kIdentity, 1);
  plain(answer);
  const auto chunks = answer.take_chunks();
  REQUIRE(chunks.size() == 4);
  const auto first = read(chunks[0]);
  CHECK(at(first, "object").text() == "chat.completion.chunk");
  CHECK(at(first, "choices.0.delta.role").text() == "assistant");
  CHECK(at(first, "choices.0.delta.content").text().empty());
  CHECK(at(first, "choices.0.finish_reason").is(json::Kind::null));
  CHECK(at(read(chunks[1]), "choices.0.delta.content").text() == "Hel");
  CHECK(at(read(chunks[2]), "choices.0.delta.content").text() == "lo");
  const auto last = read(chunks[3]);
  CHECK(at(last, "choices.0.finish_reason").text() == "length");
  CHECK(at(last, "choices.0.delta").members().empty());
  CHECK(at(last, "timings.seed").text() == "12345678901234567890");
  for (const auto& chunk : chunks) CHECK_FALSE(read(chunk).find("usage"));  // B7
}

TEST_CASE("B6 asked for, the usage is a last chunk without choices and null before") {
  for (const bool chat : {true, false}) {
    auto s = settings(chat, true);
    s.include_usage = true;
    Answer answer(s, kIdentity, 1);
    plain(answer);
    const auto chunks = answer.take_chunks();
    REQUIRE(chunks.size() == (chat ? 5 : 4));
    for (std::size_t i = 0; i + 1 < chunks.size(); ++i)
      CHECK(at(read(chunks[i]), "usage").is(json::Kind::null));
    const auto last = read(chunks.back());
    CHECK(at(last, "choices").is(json::Kind::array));
    CHECK(at(last, "choices").items().empty());
    CHECK(at(last, "usage.prompt_tokens_details.cached_tokens").as_int() == 2);
  }
}

TEST_CASE("B11 n choices have indices 0 to n-1, whole and streamed") {
  for (const bool stream : {false, true}) {
    auto s = settings(true, stream);
    s.n = 2;
    Answer answer(s, kIdentity, 1);
    answer.add(0, Started{});
    answer.add(0, text("b", 1));
    answer.add(0, text("a", 0));
    answer.add(0, ChoiceFinished{1, FinishReason::length});
    answer.add(0, text("a", 0));
    answer.add(0, ChoiceFinished{0, FinishReason::stop});
    answer.add(0, text("out of range", 7));
    answer.add(0, finished(1, 3, 0));
    if (!stream) {
      const auto body = read(answer.body());
      CHECK(at(body, "choices").items().size() == 2);
      CHECK(at(body, "choices.0.message.content").text() == "aa");
      CHECK(at(body, "choices.1.message.content").text() == "b");
      CHECK(at(body, "choices.1.index").as_int() == 1);
      CHECK(at(body, "choices.1.finish_reason").text() == "length");
      continue;
    }
    std::string seen;
    for (const auto& chunk : answer.take_chunks()) {
      const auto c = read(chunk);
      seen += at(c, "choices.0.index").text();
      if (!at(c, "choices.0.finish_reason").is(json::Kind::null)) seen += "!";
    }
    CHECK(seen == "01101!00!");
  }
}

TEST_CASE("several prompts number their choices in order and add their usage up") {
  auto s = settings(false, false);
  s.n = 2;
  Answer answer(s, kIdentity, 2);
  for (const std::size_t prompt : {1U, 0U}) {
    answer.add(prompt, text("p" + std::to_string(prompt) + "c0", 0));
    answer.add(prompt, text("p" + std::to_string(prompt) + "c1", 1));
    CHECK_FALSE(answer.ended());
    answer.add(prompt, finished(10, 4, 3));
  }
  const auto body = read(answer.body());
  CHECK(at(body, "choices.1.text").text() == "p0c1");
  CHECK(at(body, "choices.2.text").text() == "p1c0");
  CHECK(at(body, "choices.3.index").as_int() == 3);
  CHECK(at(body, "usage.prompt_tokens").as_int() == 20);
  CHECK(at(body, "usage.completion_tokens").as_int() == 8);
}

TEST_CASE("B13 B14 chat logprobs have text, exact bytes and a list of alternatives") {
  for (const bool stream : {false, true}) {
    auto s = settings(true, stream);
    s.logprobs = true;
    Answer answer(s, kIdentity, 1);
    auto delta = text("\xF0\x9F\x98\x80");
    delta.logprobs = {token("\xF0\x9F", -0.5F),
                      token("\x98\x80", -std::numeric_limits<float>::infinity(),
                            {{1, std::nanf(""), "\x98\x80"}, {2, -1, "x"}})};
    answer.add(0, delta);
    answer.add(0, ChoiceFinished{});
    answer.add(0, finished(1, 2, 0));
    const auto chunks = answer.take_chunks();
    const auto body = read(stream ? chunks[1] : answer.body());
    CHECK(at(body, "choices.0.logprobs.content").items().size() == 2);
    CHECK(at(body, "choices.0.logprobs.content.0.token").text() == "\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK(at(body, "choices.0.logprobs.content.0.bytes.0").as_int() == 0xF0);
    CHECK(at(body, "choices.0.logprobs.content.0.bytes.1").as_int() == 0x9F);
    CHECK(at(body, "choices.0.logprobs.content.0.logprob").as_double() == -0.5);
    CHECK(at(body, "choices.0.logprobs.content.0.top_logprobs").items().empty());
    CHECK(at(body, "choices.0.logprobs.content.1.logprob").as_double() == -9999);
    CHECK(at(body, "choices.0.logprobs.content.1.top_logprobs.0.logprob").as_double() == -9999);
    CHECK(at(body, "choices.0.logprobs.content.1.top_logprobs.1.token").text() == "x");
  }
}

TEST_CASE("completion logprobs follow the older schema, the prompt's first") {
  for (const bool stream : {false, true}) {
    auto s = settings(false, stream);
    s.logprobs = true;
    Answer answer(s, kIdentity, 1);
    Started started;
    started.prompt = {token("\xC3\xA9", 0), token("b", -1, {{5, -0.5F, "c"}})};
    answer.add(0, started);
    auto delta = text(
        "\xC3\xA9"
        "bd");
    delta.logprobs = {token("d", -2, {{1, -2, "d"}})};
    answer.add(0, delta);
    answer.add(0, ChoiceFinished{});
    answer.add(0, finished(2, 1, 0));
    const auto body = read(stream ? answer.take_chunks()[0] : answer.body());
    CHECK(at(body, "choices.0.logprobs.tokens").items().size() == 3);
    CHECK(at(body, "choices.0.logprobs.token_logprobs.0").is(json::Kind::null));
    CHECK(at(body, "choices.0.logprobs.token_logprobs.1").as_double() == -1);
    CHECK(at(body, "choices.0.logprobs.top_logprobs.0").is(json::Kind::null));
    CHECK(at(body, "choices.0.logprobs.top_logprobs.1.b").as_double() == -1);
    CHECK(at(body, "choices.0.logprobs.top_logprobs.1.c").as_double() == -0.5);
    CHECK(at(body, "choices.0.logprobs.text_offset.1").as_int() == 1);
    CHECK(at(body, "choices.0.logprobs.text_offset.2").as_int() == 2);
  }
}

TEST_CASE("every choice shows the prompt's log-probs, once each") {
  for (const bool stream : {false, true}) {
    auto s = settings(false, stream);
    s.logprobs = true;
    s.n = 2;
    Answer answer(s, kIdentity, 1);
    Started started;
    started.prompt = {token("a", 0), token("b", -1)};
    answer.add(0, started);
    for (const std::int32_t choice : {0, 1}) {
      for (const char* word : {"c", "d"}) {
        auto delta = text(word, choice);
        delta.logprobs = {token(word, -2)};
        answer.add(0, delta);
      }
      answer.add(0, ChoiceFinished{choice, FinishReason::length});
    }
    answer.add(0, finished(2, 4, 0));
    std::string tokens[2];
    const auto take = [&](const Value& document, const std::string& index) {
      const Value& choice = at(document, "choices." + index);
      if (at(choice, "logprobs").is(json::Kind::null)) return;
      for (const Value& t : at(choice, "logprobs.tokens").items())
        tokens[at(choice, "index").as_int()] += t.text();
    };
    if (stream) {
      for (const auto& chunk : answer.take_chunks()) take(read(chunk), "0");
    } else {
      const auto body = read(answer.body());
      take(body, "0");
      take(body, "1");
    }
    CHECK(tokens[0] == "abcd");
    CHECK(tokens[1] == "abcd");
  }
}

TEST_CASE("a failure after the stream began is its last chunk") {
  Answer answer(settings(true, true), kIdentity, 1);
  answer.add(0, text("a"));
  answer.add(0, ChoiceFinished{0, FinishReason::error});
  answer.add(0, Failed{{ErrorCode::unavailable, "The device failed.", ""}, {}});
  answer.add(0, text("late"));
  CHECK(answer.ended());
  const auto chunks = answer.take_chunks();
  REQUIRE(chunks.size() == 3);
  CHECK(at(read(chunks[2]), "error.message").text() == "The device failed.");
  CHECK(at(read(chunks[2]), "error.code").text() == "service_unavailable");
}

TEST_CASE("error codes have the API's status, type and code") {
  const auto status = [](ErrorCode code) { return shape_of({code, "", ""}).status; };
  CHECK(status(ErrorCode::bad_request) == 400);
  CHECK(status(ErrorCode::context_overflow) == 400);
  CHECK(status(ErrorCode::unsupported) == 400);
  CHECK(status(ErrorCode::not_found) == 404);
  CHECK(status(ErrorCode::queue_full) == 429);
  CHECK(status(ErrorCode::unavailable) == 503);
  CHECK(status(ErrorCode::internal) == 500);
  const auto body = read(error_body({ErrorCode::context_overflow, "too \"long\"\n", "messages"}));
  CHECK(at(body, "error.message").text() == "too \"long\"\n");
  CHECK(at(body, "error.type").text() == "invalid_request_error");
  CHECK(at(body, "error.param").text() == "messages");
  CHECK(at(body, "error.code").text() == "context_length_exceeded");
  CHECK(
      at(read(error_body({ErrorCode::bad_request, "x", ""})), "error.param").is(json::Kind::null));
}

TEST_CASE("JSON text is always UTF-8 and numbers read back") {
  std::string out;
  append_json_string(out, "a\xFF\x01\"\\\n\xE2\x82\xAC\xE2\x82");
  CHECK(out == "\"a\xEF\xBF\xBD\\u0001\\\"\\\\\\n\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD\"");
  JsonWriter json;
  json.begin_array().number(0.1F).number(std::nan("")).number(INFINITY).number(-HUGE_VAL);
  json.integer(-3);
  json.begin_object().key("a").boolean(true).key("b").null().end_object().end_array();
  CHECK(json.text() == "[0.1,null,null,null,-3,{\"a\":true,\"b\":null}]");
  CHECK(dump_json(read(R"({"b":[1.50,{}],"a":"x\u00e9"})")) ==
        "{\"b\":[1.50,{}],\"a\":\"x\xC3\xA9\"}");
}
