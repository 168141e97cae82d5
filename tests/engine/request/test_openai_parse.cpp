// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <variant>

#include "engine/request/openai_parse.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine::openai;

namespace {

const std::string kMessages = R"("messages": [{"role": "user", "content": "hi"}])";

ParsedRequest chat(const std::string& fields) {
  auto parsed = parse_chat("{" + kMessages + (fields.empty() ? "" : ", ") + fields + "}");
  INFO((parsed.ok() ? "" : parsed.error().message));
  REQUIRE(parsed.ok());
  return parsed.take();
}

Error chat_error(const std::string& fields) {
  const auto parsed = parse_chat("{" + kMessages + ", " + fields + "}");
  INFO(fields);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().message.back() == '.');
  return parsed.error();
}

ParsedRequest completion(const std::string& fields) {
  auto parsed = parse_completion("{" + fields + "}");
  INFO((parsed.ok() ? "" : parsed.error().message));
  REQUIRE(parsed.ok());
  return parsed.take();
}

Error completion_error(const std::string& fields) {
  const auto parsed = parse_completion("{" + fields + "}");
  INFO(fields);
  REQUIRE_FALSE(parsed.ok());
  return parsed.error();
}

}  // namespace

TEST_CASE("a chat body becomes one request with the API's defaults") {
  const auto parsed = chat("");
  REQUIRE(parsed.requests.size() == 1);
  const auto& request = parsed.requests[0];
  CHECK(std::get<ChatPrompt>(request.prompt).messages_json ==
        R"([{"role":"user","content":"hi"}])");
  CHECK(request.endpoint == "chat");
  CHECK(request.n == 1);
  CHECK_FALSE(request.max_tokens);
  CHECK_FALSE(request.sampling.temperature);
  CHECK(request.logprobs == -1);
  CHECK(parsed.settings.chat);
  CHECK_FALSE(parsed.settings.stream);
  CHECK_FALSE(parsed.settings.include_usage);
}

TEST_CASE("sampling fields arrive") {
  const auto parsed = chat(R"("temperature": 0.5, "top_p": 0.9, "top_k": -1, "min_p": 0.1,
    "repetition_penalty": 1.1, "presence_penalty": 1, "frequency_penalty": -1, "seed": 42,
    "logit_bias": {"7": -100, "8": 1.5}, "stop": ["a", "b"], "stop_token_ids": [3], "n": 2,
    "ignore_eos": true, "skip_special_tokens": false, "cache_prompt": false, "cache_salt": "s", "user": "u",
    "store": true, "metadata": {"a": "b"}, "service_tier": "auto", "parallel_tool_calls": true,
    "model": "m", "stream": true, "stream_options": {"include_usage": true}, "unknown": [1])");
  const auto& r = parsed.requests[0];
  CHECK(*r.sampling.temperature == 0.5F);
  CHECK(*r.sampling.top_p == 0.9F);
  CHECK(*r.sampling.top_k == 0);
  CHECK(*r.sampling.min_p == 0.1F);
  CHECK(*r.sampling.seed == 42);
  CHECK(r.sampling.logit_bias == std::vector<std::pair<std::int32_t, float>>{{7, -100}, {8, 1.5F}});
  CHECK(r.stop == std::vector<std::string>{"a", "b"});
  CHECK(r.stop_token_ids == std::vector<std::int32_t>{3});
  CHECK(r.n == 2);
  CHECK(r.ignore_eos);
  CHECK_FALSE(r.skip_special_tokens);
  CHECK_FALSE(r.use_cache);
  CHECK(r.cache_salt == "s");
  CHECK(parsed.settings.model == "m");
  CHECK(parsed.settings.stream);
  CHECK(parsed.settings.include_usage);
  CHECK(*chat(R"("seed": 18446744073709551615)").requests[0].sampling.seed == UINT64_MAX);
  CHECK(*chat(R"("seed": -1)").requests[0].sampling.seed == UINT64_MAX);
  CHECK(chat(R"("stop": "x")").requests[0].stop == std::vector<std::string>{"x"});
}

TEST_CASE("null is the same as absent") {
  const auto r = chat(R"("temperature": null, "stop": null, "max_tokens": null, "n": null,
    "logit_bias": null, "tools": null, "tool_choice": null, "response_format": null, "seed": null,
    "stream": null, "stream_options": null, "logprobs": null, "top_logprobs": null)");
  CHECK_FALSE(r.requests[0].max_tokens);
  CHECK_FALSE(r.settings.stream);
}

TEST_CASE("E2 a malformed body or a wrong type is refused and named") {
  for (const char* body : {"{:", "", "[]", "null", "3", "\"x\"", "{\"messages\":", "{} {}"}) {
    INFO(body);
    REQUIRE_FALSE(parse_chat(body).ok());
    REQUIRE_FALSE(parse_completion(body).ok());
    CHECK(parse_chat(body).error().code == ErrorCode::bad_request);
  }
  const std::pair<const char*, const char*> wrong[] = {
      {R"("stream": "true")", "stream"},
      {R"("stream": 1)", "stream"},
      {R"("temperature": "0.5")", "temperature"},
      {R"("max_tokens": "5")", "max_tokens"},
      {R"("max_tokens": 1.5)", "max_tokens"},
      {R"("max_tokens": 1e20)", "max_tokens"},
      {R"("n": [])", "n"},
      {R"("stop": 5)", "stop"},
      {R"("stop": ["a", 5])", "stop"},
      {R"("stop": {"a": 5})", "stop"},
      {R"("logit_bias": [])", "logit_bias"},
      {R"("logit_bias": {"x": 1})", "logit_bias"},
      {R"("logit_bias": {"1": "x"})", "logit_bias"},
      {R"("stream_options": "x")", "stream_options"},
      {R"("stream_options": {"include_usage": "yes"})", "stream_options.include_usage"},
      {R"("model": 7)", "model"},
      {R"("cache_salt": 7)", "cache_salt"},
      {R"("cache_prompt": "no")", "cache_prompt"},
      {R"("seed": "x")", "seed"},
      {R"("seed": 1.5)", "seed"},
      {R"("logprobs": 2)", "logprobs"},
      {R"("tools": {})", "tools"},
      {R"("response_format": "json")", "response_format"},
      {R"("response_format": {})", "response_format.type"},
      {R"("chat_template_kwargs": [])", "chat_template_kwargs"},
      {R"("chat_template_kwargs": {"enable_thinking": 1})", "chat_template_kwargs.enable_thinking"},
  };
  for (const auto& [fields, param] : wrong) CHECK(chat_error(fields).param == param);
  CHECK(chat_error(R"("stream": "true")").message == "stream must be a boolean, not a string.");
}

TEST_CASE("E3 a body that is not UTF-8 is refused") {
  const std::string gbk =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"\xC4\xE3\xBA\xC3\"}]}";
  REQUIRE_FALSE(parse_chat(gbk).ok());
  CHECK(parse_chat(gbk).error().message.find("UTF-8") != std::string::npos);
}

TEST_CASE("B25 messages that are no list of messages are refused") {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({})", "messages"},
      {R"({"messages": "x"})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": {}})", "messages"},
      {R"({"messages": ["x"]})", "messages[0]"},
      {R"({"messages": [{"content": "x"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "robot", "content": "x"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": [5]}]})", "messages[0].content[0]"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
       "messages[0].content[0].text"},
  };
  for (const auto& [body, param] : wrong) {
    const auto parsed = parse_chat(body);
    INFO(body);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrorCode::bad_request);
    CHECK(parsed.error().param == param);
  }
}

TEST_CASE("B23 content lists are kept whole for every role") {
  const auto parsed = parse_chat(
      R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]},
          {"role": "assistant", "content": null, "tool_calls": []}, {"role": "user", "content": ""}]})");
  REQUIRE(parsed.ok());
  const auto json = std::get<ChatPrompt>(parsed->requests[0].prompt).messages_json;
  for (const char* text : {"\"a\"", "\"b\"", "\"c\"", "\"d\""})
    CHECK(json.find(text) != std::string::npos);
}

TEST_CASE("B24 an image part is refused and its type named") {
  const auto parsed = parse_chat(
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]})");
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().code == ErrorCode::unsupported);
  CHECK(parsed.error().message.find("image_url") != std::string::npos);
}

TEST_CASE("B10 max_completion_tokens counts on both end points and a conflict is refused") {
  CHECK(*chat(R"("max_completion_tokens": 7)").requests[0].max_tokens == 7);
  CHECK(*chat(R"("max_tokens": 8)").requests[0].max_tokens == 8);
  CHECK(*chat(R"("max_tokens": 7, "max_completion_tokens": 7)").requests[0].max_tokens == 7);
  CHECK(chat_error(R"("max_tokens": 7, "max_completion_tokens": 8)").param ==
        "max_completion_tokens");
  CHECK(*completion(R"("prompt": "x", "max_completion_tokens": 100)").requests[0].max_tokens ==
        100);
  CHECK(*completion(R"("prompt": "x")").requests[0].max_tokens == 16);
}

TEST_CASE("B13 logprobs true alone asks for the token's own, and top_logprobs needs it") {
  const auto parsed = chat(R"("logprobs": true)");
  CHECK(parsed.requests[0].logprobs == 0);
  CHECK(parsed.settings.logprobs);
  CHECK(chat(R"("logprobs": true, "top_logprobs": 2)").requests[0].logprobs == 2);
  CHECK(chat_error(R"("top_logprobs": 2)").param == "top_logprobs");
  CHECK(chat(R"("logprobs": false, "top_logprobs": 0)").requests[0].logprobs == -1);
}

TEST_CASE("what would change the answer's meaning is refused, not ignored") {
  const std::pair<const char*, const char*> refused[] = {
      {R"("functions": [{"name": "f"}])", "functions"},
      {R"("function_call": {"name": "f"})", "function_call"},
      {R"("response_format": {"type": "json_object"})", "response_format"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("tool_choice": {"type": "function", "function": {"name": "f"}})", "tool_choice"},
      {R"("best_of": 3)", "best_of"},
      {R"("modalities": ["text", "audio"])", "modalities"},
      {R"("audio": {"voice": "x"})", "audio"},
      {R"("guided_json": {"type": "object"})", "guided_json"},
      {R"("continue_final_message": true)", "continue_final_message"},
      {R"("use_beam_search": true)", "use_beam_search"},
  };
  for (const auto& [fields, param] : refused) {
    const auto error = chat_error(fields);
    CHECK(error.code == ErrorCode::unsupported);
    CHECK(error.param == param);
  }
  CHECK(completion_error(R"("prompt": "x", "suffix": "y")").param == "suffix");
  chat(
      R"("functions": [], "function_call": "none", "response_format": {"type": "text"}, "best_of": 1,
          "modalities": ["text"], "guided_json": null, "use_beam_search": false)");
  completion(R"("prompt": "x", "suffix": "")");
}

TEST_CASE("B17 tools reach the template unless tool_choice is none") {
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])";
  const auto prompt = [](const ParsedRequest& p) {
    return std::get<ChatPrompt>(p.requests[0].prompt);
  };
  CHECK(prompt(chat(tools)).tools_json ==
        R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  CHECK_FALSE(prompt(chat(tools + R"(, "tool_choice": "auto")")).tools_json.empty());
  CHECK(prompt(chat(tools + R"(, "tool_choice": "none")")).tools_json.empty());
}

TEST_CASE("E12 odd tool schemas are refused") {
  for (const char* tool : {"5", "{}", R"({"type": "x"})", R"({"type": "function"})",
                           R"({"type": "function", "function": 5})",
                           R"({"type": "function", "function": {"name": 5}})",
                           R"({"type": "function", "function": {"name": "f", "parameters": "x"}})"})
    CHECK(chat_error("\"tools\": [" + std::string(tool) + "]").code == ErrorCode::bad_request);
}

TEST_CASE("thinking and template variables arrive") {
  const auto prompt = [](const ParsedRequest& p) {
    return std::get<ChatPrompt>(p.requests[0].prompt);
  };
  CHECK_FALSE(prompt(chat("")).enable_thinking);
  CHECK(*prompt(chat(R"("enable_thinking": false)")).enable_thinking == false);
  const auto kwargs =
      prompt(chat(R"("chat_template_kwargs": {"enable_thinking": true, "x": 1.50})"));
  CHECK(*kwargs.enable_thinking);
  CHECK(kwargs.template_kwargs_json == R"({"x":1.50})");
}

TEST_CASE("a completions prompt is text, ids, or a list of either") {
  CHECK(std::get<TextPrompt>(completion(R"("prompt": "x")").requests[0].prompt).text == "x");
  CHECK_FALSE(
      std::get<TextPrompt>(completion(R"("prompt": "x")").requests[0].prompt).parse_special);
  using Ids = std::vector<std::int32_t>;
  CHECK(std::get<Ids>(completion(R"("prompt": [1, 2])").requests[0].prompt) == Ids{1, 2});
  const auto texts = completion(R"("prompt": ["x", "y"], "n": 2, "seed": 3)");
  REQUIRE(texts.requests.size() == 2);
  CHECK(std::get<TextPrompt>(texts.requests[1].prompt).text == "y");
  CHECK(*texts.requests[1].sampling.seed == 3);
  CHECK(completion(R"("prompt": [[1], [2, 3]])").requests.size() == 2);
  CHECK(completion(R"("prompt": ["x"])").requests.size() == 1);
  for (const char* bad :
       {"5", "[]", "{}", "[[]]", "[1, \"x\"]", "[\"x\", 1]", "[1.5]", "[null]", "true"})
    CHECK(completion_error("\"prompt\": " + std::string(bad)).param == "prompt");
  CHECK(completion_error("\"n\": 1").param == "prompt");
}

TEST_CASE("echo with logprobs asks for those of the prompt") {
  const auto r = completion(R"("prompt": "x", "echo": true, "logprobs": 1)").requests[0];
  CHECK(r.echo);
  CHECK(r.prompt_logprobs);
  CHECK(r.logprobs == 1);
  CHECK_FALSE(completion(R"("prompt": "x", "echo": true)").requests[0].prompt_logprobs);
}

TEST_CASE("a body of millions of values is refused before any is built") {
  std::string body = "{\"prompt\": [";
  for (int i = 0; i < 1'100'000; ++i) body += "1,";
  body += "1]}";
  CHECK(parse_completion(body).error().message.find("values") != std::string::npos);
  CHECK(parse_completion("{\"prompt\": \"" + std::string(1'100'000, ',') + "\"}").ok());
  CHECK_FALSE(parse_completion(std::string(100'000, '[')).ok());
}

TEST_CASE("tokenize and detokenize bodies") {
  CHECK(std::get<TextPrompt>(parse_tokenize(R"({"content": "x"})")->prompt).text == "x");
  CHECK(std::get<TextPrompt>(parse_tokenize(R"({"prompt": "x", "parse_special": true})")->prompt)
            .parse_special);
  CHECK(std::holds_alternative<ChatPrompt>(parse_tokenize("{" + kMessages + "}")->prompt));
  CHECK(parse_tokenize("{}").error().param == "content");
  CHECK(parse_detokenize(R"({"tokens": [1, 2]})")->tokens == std::vector<std::int32_t>{1, 2});
  CHECK(parse_detokenize(R"({"tokens": ["1"]})").error().param == "tokens");
  CHECK(parse_detokenize("{}").error().param == "tokens");
}

TEST_CASE("tool calls that are no calls are refused and the field is named") {
  const auto calls = [](const std::string& json) {
    return parse_chat(R"({"messages": [{"role": "assistant", "tool_calls": )" + json + "}]}");
  };
  const std::pair<const char*, const char*> wrong[] = {
      {"5", ""},
      {"{}", ""},
      {"[null]", "[0]"},
      {R"(["f"])", "[0]"},
      {"[{}]", "[0].function"},
      {R"([{"function": null}])", "[0].function"},
      {R"([{"function": "f"}])", "[0].function"},
      {R"([{"function": {"arguments": "{}"}}])", "[0].function.name"},
      {R"([{"function": {"name": 5, "arguments": "{}"}}])", "[0].function.name"},
      {R"([{"function": {"name": "f"}}])", "[0].function.arguments"},
      {R"([{"function": {"name": "f", "arguments": null}}])", "[0].function.arguments"},
      {R"([{"function": {"name": "f", "arguments": {}}}])", "[0].function.arguments"},
      {R"([{"function": {"name": "f", "arguments": "{}"}}, 7])", "[1]"},
  };
  for (const auto& [json, param] : wrong) {
    INFO(json);
    const auto parsed = calls(json);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrorCode::bad_request);
    CHECK(parsed.error().param == std::string("messages[0].tool_calls") + param);
  }
  CHECK(calls("null").ok());
  CHECK(calls(R"([{"id": "1", "function": {"name": "f", "arguments": "{}"}}])").ok());
}

TEST_CASE("a long value of the client's is cut in the message, between characters") {
  std::string euros;
  for (int i = 0; i < 5000; ++i) euros += "\xE2\x82\xAC";
  const std::string shown = euros.substr(0, 99) + "...";
  const Error errors[] = {
      chat_error(R"("response_format": {"type": ")" + euros + "\"}"),
      chat_error(R"("logit_bias": {")" + euros + "\": 1}"),
      parse_chat(R"({"messages": [{"role": ")" + euros + R"(", "content": "x"}]})").error(),
      parse_chat(R"({"messages": [{"role": "user", "content": [{"type": ")" + euros + "\"}]}]}")
          .error()};
  for (const Error& error : errors) {
    CAPTURE(error.message.substr(0, 60));
    CHECK(error.message.find("'" + shown + "'") != std::string::npos);
    CHECK(error.message.size() < 400);
    CHECK(error.param.size() < 100);
  }
  CHECK(chat_error(R"("n": 1)" + std::string(3000, '0')).message.size() < 200);
}

TEST_CASE("positions that a text's client marks arrive, and a chat is told how it marks") {
  CHECK(
      completion(R"("prompt": [1, 2, 3], "cache_positions": [2, 3])").requests[0].cache_positions ==
      std::vector<std::int32_t>{2, 3});
  CHECK(
      completion(R"("prompt": "x", "cache_positions": null)").requests[0].cache_positions.empty());
  for (const char* wrong : {"5", "\"5\"", "[1.5]", "[\"1\"]", "{}", "[null]"}) {
    CHECK(completion_error(std::string(R"("prompt": "x", "cache_positions": )") + wrong).param ==
          "cache_positions");
  }
  const Error chat = chat_error(R"("cache_positions": [5])");
  CHECK(chat.param == "cache_positions");
  CHECK(chat.message.find("cache_control") != std::string::npos);
}

TEST_CASE("a mark on a tool is refused, because the model would read it") {
  const std::string tool = R"("tools": [{"type": "function", "function": {"name": "f"}, )";
  CHECK(chat_error(tool + R"("cache_control": {"type": "ephemeral"}}])").param ==
        "tools[0].cache_control");
  chat(tool + R"("cache_control": null}])");
}
