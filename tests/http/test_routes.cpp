// SPDX-License-Identifier: Apache-2.0
#include "tests/http/serving.hpp"

using namespace cairn;
using namespace cairn::testing;

TEST_CASE("models are listed and looked up by id") {
  http::ServerOptions options;
  options.model_aliases = {"gpt-x", "org/name"};
  Serving s(options);
  const auto list = s.ask(get("/v1/models"));
  CHECK(list.status == 200);
  CHECK(list.headers.at("content-type") == "application/json");
  CHECK(at(list.json(), "object").text() == "list");
  CHECK(at(list.json(), "data.0.id").text() == "fake");
  CHECK(at(list.json(), "data").items().size() == 3);
  CHECK(at(list.json(), "data.0.max_model_len").as_int() == 4096);
  CHECK(at(list.json(), "data.0.vocab_size").as_int() == 256);
  CHECK(at(s.ask(get("/v1/models/fake")).json(), "id").text() == "fake");
  CHECK(s.ask(get("/v1/models/org/name")).status == 200);
  CHECK(s.ask(get("/v1/models/org%2Fname")).status == 200);
  const auto missing = s.ask(get("/v1/models/other"));
  CHECK(missing.status == 404);
  CHECK(at(missing.json(), "error.code").text() == "model_not_found");
}

TEST_CASE("B28 an unknown route is a 404 with an error object") {
  Serving s;
  for (const char* path : {"/v1/typo", "/v1", "/healthz", "/v1/chat/completions/x", "/%00"}) {
    const auto response = s.ask(get(path));
    INFO(path);
    CHECK(response.status == 404);
    CHECK(response.headers.at("content-type") == "application/json");
    CHECK(at(response.json(), "error.type").text() == "invalid_request_error");
  }
  CHECK(s.ask(post("/v1/typo", "{}")).status == 404);
}

TEST_CASE("a wrong method is a 405 that names the right ones") {
  Serving s;
  const auto got = s.ask(get("/v1/chat/completions"));
  CHECK(got.status == 405);
  CHECK(got.headers.at("allow") == "POST, OPTIONS");
  at(got.json(), "error.message");
  const auto posted = s.ask(post("/v1/models", "{}"));
  CHECK(posted.status == 405);
  CHECK(posted.headers.at("allow") == "GET, HEAD, OPTIONS");
  CHECK(s.ask("DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n").status == 405);
  CHECK(s.ask("BREW /health HTTP/1.1\r\nHost: x\r\n\r\n").status == 405);
}

TEST_CASE("HEAD has the headers of GET, OPTIONS says what is allowed") {
  Serving s;
  const auto got = s.ask(get("/v1/models"));
  const auto head = s.ask("HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", true);
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-length") == got.headers.at("content-length"));
  const auto options = s.ask("OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(options.status == 204);
  CHECK(options.headers.at("allow") == "POST, OPTIONS");
  CHECK(options.headers.count("access-control-allow-origin") == 0);
}

TEST_CASE("CORS headers appear when an origin is configured") {
  http::ServerOptions options;
  options.cors_origin = "*";
  Serving s(options);
  CHECK(s.ask(get("/health")).headers.at("access-control-allow-origin") == "*");
  const auto preflight = s.ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(preflight.headers.at("access-control-allow-headers") == "Authorization, Content-Type");
  CHECK(s.chat(R"("stream":true)").headers.at("access-control-allow-origin") == "*");
}

TEST_CASE("health follows the engine") {
  Serving s;
  CHECK(s.ask(get("/health")).status == 200);
  s.engine->set_health({false, "The device was lost."});
  const auto sick = s.ask(get("/health"));
  CHECK(sick.status == 503);
  CHECK(at(sick.json(), "reason").text() == "The device was lost.");
}

TEST_CASE("D6 metrics have the text format's content type") {
  Serving s;
  const auto page = s.ask(get("/metrics"));
  CHECK(page.status == 200);
  CHECK(page.headers.at("content-type") == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(page.body.find("cairn_requests_total{") != std::string::npos);
}

TEST_CASE("D7 a thousand misspelt models make no series and are told which exists") {
  Serving s;
  const auto series = [&] {
    const auto page = s.ask(get("/metrics")).body;
    return std::count(page.begin(), page.end(), '\n');
  };
  const auto before = series();
  RawClient client(s.server->port());
  for (int i = 0; i < 1000; ++i) {
    client.send(post("/v1/chat/completions",
                     Serving::chat_body("\"model\":\"wrong-" + std::to_string(i) + "\"")));
    const auto response = client.read();
    REQUIRE(response.status == 404);
    REQUIRE(at(response.json(), "error.code").text() == "model_not_found");
  }
  CHECK(series() == before);
  CHECK(s.metrics->requests_total(Endpoint::chat, Outcome::error).value() == 1000);
}

TEST_CASE("the status page stands alone and its JSON is complete") {
  Serving s;
  const auto home = s.ask(get("/"));
  CHECK(home.headers.at("content-type") == "text/html; charset=utf-8");
  CHECK(home.body.find("http://") == std::string::npos);
  CHECK(home.body.find("https://") == std::string::npos);
  const auto status = s.ask(get("/status?x=1")).json();
  CHECK(at(status, "model.name").text() == "fake");
  CHECK(at(status, "cache.policy").text() == "dp:4");
  CHECK(at(status, "ready").as_bool());
  CHECK(at(status, "limits.context").text() == "4096 tokens");
  CHECK(at(status, "limits.body").text() == "16.00 MiB");
}

TEST_CASE("tokenize and detokenize speak both common dialects") {
  Serving s;
  const auto tokens = s.ask(post("/tokenize", R"({"content":"ab"})")).json();
  CHECK(at(tokens, "tokens.1").as_int() == 'b');
  CHECK(at(tokens, "count").as_int() == 2);
  CHECK(at(s.ask(post("/tokenize", R"({"model":"fake","prompt":"a"})")).json(), "count").as_int() ==
        1);
  const auto text = s.ask(post("/detokenize", R"({"tokens":[104,105]})")).json();
  CHECK(at(text, "content").text() == "hi");
  CHECK(at(text, "prompt").text() == "hi");
  CHECK(s.ask(post("/tokenize", "{}")).status == 400);
  CHECK(s.ask(post("/detokenize", R"({"tokens":"x"})")).status == 400);
  CHECK(s.ask(post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})")).status == 400);
}

TEST_CASE("an exception in the engine is a 500 and the server goes on") {
  Serving s;
  const auto response = s.ask(post("/tokenize", R"({"content":"throw"})"));
  CHECK(response.status == 500);
  CHECK(at(response.json(), "error.code").text() == "internal_error");
  CHECK(response.body.find("on purpose") == std::string::npos);
  CHECK(s.ask(get("/health")).status == 200);
}

TEST_CASE("with keys configured only holders get in, health and metrics stay open") {
  http::ServerOptions options;
  options.api_keys = {"secret-1", "secret-2"};
  Serving s(options);
  for (const char* header : {"", "Authorization: Bearer secret\r\n",
                             "Authorization: Bearer secret-3\r\n", "Authorization: Bearer \r\n",
                             "Authorization: secret-1\r\n", "Authorization: Basic secret-1\r\n"}) {
    const auto response = s.ask(post("/v1/chat/completions", Serving::chat_body(), header));
    INFO(header);
    CHECK(response.status == 401);
    CHECK(response.headers.at("www-authenticate") == "Bearer");
    CHECK(at(response.json(), "error.code").text() == "invalid_api_key");
  }
  CHECK(s.engine->requests().empty());
  CHECK(s.ask(get("/v1/models")).status == 401);
  CHECK(s.ask(get("/v1/models", "Authorization: bearer secret-2\r\n")).status == 200);
  CHECK(s.ask(post("/v1/chat/completions", Serving::chat_body(),
                   "Authorization: Bearer secret-1\r\n"))
            .status == 200);
  for (const char* path : {"/health", "/metrics", "/", "/status"})
    CHECK(s.ask(get(path)).status == 200);
}

TEST_CASE("a port that is taken is named") {
  Serving s;
  http::ServerOptions options;
  options.port = s.server->port();
  http::Server second(s.engine, s.metrics, options);
  const auto status = second.start();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message.find("127.0.0.1:" + std::to_string(options.port)) !=
        std::string::npos);
  options.address = "not an address";
  http::Server third(s.engine, s.metrics, options);
  CHECK_FALSE(third.start().ok());
}
