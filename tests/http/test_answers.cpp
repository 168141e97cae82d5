// SPDX-License-Identifier: Apache-2.0
#include "tests/http/serving.hpp"

using namespace cairn;
using namespace cairn::testing;

TEST_CASE("a chat is answered whole") {
  Serving s;
  const auto response = s.chat(R"("model":"fake","max_tokens":5)");
  CHECK(response.status == 200);
  const auto body = response.json();
  CHECK(at(body, "object").text() == "chat.completion");
  CHECK(at(body, "choices.0.message.content").text() == "Hello world");
  CHECK(at(body, "choices.0.finish_reason").text() == "stop");
  CHECK(at(body, "usage.prompt_tokens_details.cached_tokens").as_int() == 0);
  CHECK(at(body, "timings.seed").as_int() == 7);
  REQUIRE(s.engine->requests().size() == 1);
  CHECK(*s.engine->requests()[0].max_tokens == 5);
}

TEST_CASE("a chat is streamed: role, text, reason, the end mark, and the connection lives on") {
  Serving s;
  RawClient client(s.server->port());
  for (int round = 0; round < 3; ++round) {
    client.send(post("/v1/chat/completions", Serving::chat_body(R"("stream":true)")));
    const auto response = client.read();
    CHECK(response.status == 200);
    CHECK(response.headers.at("content-type") == "text/event-stream; charset=utf-8");
    const auto events = response.events();
    REQUIRE(events.size() == 5);
    CHECK(events[0].find("\"role\":\"assistant\"") != std::string::npos);
    CHECK(events[1].find("\"content\":\"Hello\"") != std::string::npos);
    CHECK(events[3].find("\"finish_reason\":\"stop\"") != std::string::npos);
    CHECK(events[4] == "[DONE]");
    CHECK(response.body.find("usage") == std::string::npos);  // B7
  }
}

TEST_CASE("B6 the usage chunk comes on request, last and without choices") {
  Serving s;
  const auto events = s.chat(R"("stream":true,"stream_options":{"include_usage":true})").events();
  REQUIRE(events.size() == 6);
  CHECK(events[4].find("\"choices\":[]") != std::string::npos);
  CHECK(events[4].find("\"prompt_tokens\":3") != std::string::npos);
  for (int i = 0; i < 4; ++i)
    CHECK(events[static_cast<std::size_t>(i)].find("\"usage\":null") != std::string::npos);
}

TEST_CASE("tokens leave when they are made, not when the answer ends") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.text("first");
    run.wait_cancelled(std::chrono::seconds(20));
  });
  RawClient client(s.server->port());
  client.send(post("/v1/chat/completions", Serving::chat_body(R"("stream":true)")));
  CHECK(client.wait_for("first"));
}

TEST_CASE("B11 text completions take several prompts and several choices") {
  Serving s;
  for (const std::string stream : {"false", "true"}) {
    const auto response = s.ask(post(
        "/v1/completions", R"({"prompt":["a","b"],"n":2,"logprobs":1,"stream":)" + stream + "}"));
    CHECK(response.status == 200);
    if (stream == "true") {
      std::set<std::string> seen;
      for (const auto& event : response.events())
        if (event != "[DONE]") seen.insert(at(json::parse(event).take(), "choices.0.index").text());
      CHECK(seen == std::set<std::string>{"0", "1", "2", "3"});
    } else {
      CHECK(at(response.json(), "choices").items().size() == 4);
      CHECK(at(response.json(), "choices.3.text").text() == "Hello world");
      CHECK(at(response.json(), "choices.3.logprobs.tokens").items().size() == 2);
      CHECK(at(response.json(), "usage.prompt_tokens").as_int() == 6);
    }
  }
  CHECK(s.engine->requests().size() == 4);
}

TEST_CASE("B27 an overflow found by the engine is a 400 with its code, streamed or not") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.fail(
        ErrorCode::context_overflow,
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.");
  });
  for (const char* stream : {R"("stream":false)", R"("stream":true)"}) {
    const auto response = s.chat(stream);
    CHECK(response.status == 400);
    CHECK(response.headers.at("content-type") == "application/json");
    CHECK(at(response.json(), "error.code").text() == "context_length_exceeded");
    CHECK(at(response.json(), "error.message").text().find("4096") != std::string::npos);
  }
}

TEST_CASE("a refusal at the door has its status and says when to try again") {
  Serving s;
  s.engine->refuse_next({ErrorCode::queue_full, "The queue is full.", ""});
  const auto full = s.chat();
  CHECK(full.status == 429);
  CHECK(full.headers.count("retry-after") == 1);
  CHECK(at(full.json(), "error.code").text() == "rate_limit_exceeded");
  s.engine->refuse_next({ErrorCode::unavailable, "The device is down.", ""});
  const auto down = s.chat(R"("stream":true)");
  CHECK(down.status == 503);
  CHECK(down.headers.count("retry-after") == 1);
  CHECK(s.metrics->requests_total(Endpoint::chat, Outcome::error).value() == 2);
}

TEST_CASE("when one of several prompts is refused the others are cancelled") {
  Serving s;
  s.engine->set_script([](FakeRun& run) { run.wait_cancelled(std::chrono::seconds(20)); });
  RawClient client(s.server->port());
  s.engine->set_script([&](FakeRun& run) {
    s.engine->refuse_next({ErrorCode::queue_full, "The queue is full.", ""});
    run.wait_cancelled(std::chrono::seconds(20));
  });
  std::string prompts = "[\"p\"";
  for (int i = 0; i < 63; ++i) prompts += ",\"p\"";
  client.send(post("/v1/completions", "{\"prompt\":" + prompts + "]}"));
  if (client.read().status == 429) CHECK(s.engine->wait_idle());
}

TEST_CASE("a failure after the first token is an event of the stream, and the stream ends") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.text("some");
    run.pause(50);
    run.emit(ChoiceFinished{0, FinishReason::error});
    run.fail(ErrorCode::unavailable, "The device failed.");
  });
  const auto streamed = s.chat(R"("stream":true)");
  CHECK(streamed.status == 200);
  const auto events = streamed.events();
  REQUIRE(events.size() == 4);
  CHECK(events[2].find("\"error\":{\"message\":\"The device failed.\"") != std::string::npos);
  CHECK(events[3] == "[DONE]");
  CHECK(s.chat().status == 503);
}

TEST_CASE("E2 malformed bodies and wrong types are a 400 with an error object") {
  Serving s;
  RawClient client(s.server->port());
  for (const char* body :
       {"{:", "", "null", "[]", "\"x\"", R"({"messages":"x"})", R"({"messages":[]})",
        R"({"messages":[{"role":"user","content":"x"}],"stream":"true"})",
        R"({"messages":[{"role":"user","content":{"a":1}}]})", R"({"messages":5})",
        "{\"messages\":[", "\xEF\xBB\xBF{}", "nul", "{\"a\":1e999999}"}) {
    client.send(post("/v1/chat/completions", body));
    const auto response = client.read();
    INFO(body);
    CHECK(response.status == 400);
    CHECK(at(response.json(), "error.type").text() == "invalid_request_error");
  }
  CHECK(s.engine->requests().empty());
}

TEST_CASE("E3 a body that is not UTF-8 is a 400") {
  Serving s;
  const auto response =
      s.ask(post("/v1/chat/completions",
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"\xC4\xE3\xBA\xC3\"}]}"));
  CHECK(response.status == 400);
  CHECK(s.ask(post("/v1/completions", std::string("{\"prompt\":\"\0\xFF\"}", 15))).status == 400);
}

TEST_CASE("B24 B25 what the model cannot read is refused by name") {
  Serving s;
  const auto image = s.ask(post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})"));
  CHECK(image.status == 400);
  CHECK(at(image.json(), "error.param").text() == "messages[0].content[0].type");
  CHECK(image.body.find("image_url") != std::string::npos);
}

TEST_CASE("a content type is not asked for") {
  Serving s;
  const std::string body = Serving::chat_body();
  CHECK(s.ask("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: "
              "text/plain\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body)
            .status == 200);
}

TEST_CASE("many clients are answered at once, each with its own") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    for (int i = 0; i < 5; ++i) {
      run.text(std::get<TextPrompt>(run.request.prompt).text + ";");
      run.pause(5);
    }
    run.finish();
  });
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 32; ++t)
    threads.emplace_back([&, t] {
      RawClient client(s.server->port());
      for (int round = 0; round < 3; ++round) {
        const auto name = "p" + std::to_string(t) + "-" + std::to_string(round);
        client.send(post("/v1/completions", "{\"prompt\":\"" + name + "\"}"));
        const auto response = client.read();
        const auto want = name + ";" + name + ";" + name + ";" + name + ";" + name + ";";
        if (response.body.find("\"" + want + "\"") != std::string::npos) ++good;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(good == 96);
  CHECK(s.engine->cancels() == 0);
}
