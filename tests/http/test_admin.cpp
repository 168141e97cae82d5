// SPDX-License-Identifier: Apache-2.0
// Keys, scopes and the endpoints for operators.
#include "tests/http/serving.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

const std::string kAsAdmin = "Authorization: Bearer root\r\n";
const std::string kAsClient = "Authorization: Bearer secret-1\r\n";

http::ServerOptions guarded() {
  http::ServerOptions options;
  options.api_keys = {"secret-1", "secret-2"};
  options.admin_key = "root";
  return options;
}

}  // namespace

TEST_CASE("the engine hears the key that let a client in, and its salt") {
  Serving s(guarded());
  const auto ask_as = [&](const char* path, const std::string& body, const std::string& key) {
    CHECK(s.ask(post(path, body, "Authorization: Bearer " + key + "\r\n")).status == 200);
  };
  ask_as("/v1/chat/completions", Serving::chat_body(R"("cache_salt":"pepper")"), "secret-1");
  ask_as("/v1/completions", R"({"prompt":["a","b"],"cache_salt":"salt"})", "secret-2");
  ask_as("/v1/completions", R"({"prompt":"a","cache_prompt":false})", "secret-2");
  const auto seen = s.engine->requests();
  REQUIRE(seen.size() == 4);
  CHECK(seen[0].client_key == "secret-1");
  CHECK(seen[0].cache_salt == "pepper");
  for (const std::size_t i : {1U, 2U}) {
    CHECK(seen[i].client_key == "secret-2");
    CHECK(seen[i].cache_salt == "salt");
    CHECK(seen[i].use_cache);
  }
  CHECK(seen[3].cache_salt.empty());
  CHECK_FALSE(seen[3].use_cache);
}

TEST_CASE("where no key is asked for, what a client sends as one is nobody's name") {
  Serving s;
  CHECK(s.ask(post("/v1/completions", R"({"prompt":"a"})", kAsClient)).status == 200);
  CHECK(s.engine->requests()[0].client_key.empty());
}

TEST_CASE("a salt that is no string is a 400 that names it") {
  Serving s;
  for (const char* salt : {"7", "[\"a\"]", "{}", "true"}) {
    const auto response = s.chat(std::string("\"cache_salt\":") + salt);
    CHECK(response.status == 400);
    CHECK(at(response.json(), "error.param").text() == "cache_salt");
  }
  CHECK(s.engine->requests().empty());
}

TEST_CASE("a cache divided by key needs keys, and the admin's is none of them") {
  const auto engine = std::make_shared<FakeEngine>();
  const auto metrics = std::make_shared<Metrics>();
  const auto start = [&](http::ServerOptions options) {
    options.port = 0;
    return http::Server(engine, metrics, std::move(options)).start();
  };
  CHECK(start({}).ok());
  engine->set_cache_scope("key");
  const auto refused = start({});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("needs API keys") != std::string::npos);
  CHECK(start(guarded()).ok());
  auto same = guarded();
  same.admin_key = "secret-2";
  REQUIRE_FALSE(start(same).ok());
  CHECK(start(same).error().message.find("admin key") != std::string::npos);
}

TEST_CASE("without an admin key there is nothing to drop the cache with") {
  http::ServerOptions options;
  options.api_keys = {"secret-1"};
  Serving s(options);
  for (const std::string& header :
       {std::string(), kAsClient, kAsAdmin, std::string("Authorization: Bearer \r\n")}) {
    const auto response = s.ask(post("/admin/cache/drop", "", header));
    CHECK(response.status == 404);
    CHECK(at(response.json(), "error.code").text() == "not_found");
  }
  CHECK(s.engine->drops() == 0);
}

TEST_CASE("only the admin drops the cache, and is told what went") {
  Serving s(guarded());
  DroppedCache dropped;
  dropped.paths = 9;
  dropped.states = 4;
  dropped.bytes = 1'000;
  dropped.disk_states = 3;
  dropped.disk_bytes = 5'000'000'000;
  s.engine->set_dropped(dropped);
  for (const std::string& header :
       {std::string(), kAsClient, std::string("Authorization: Bearer roo\r\n")}) {
    const auto response = s.ask(post("/admin/cache/drop", "", header));
    CHECK(response.status == 401);
    CHECK(at(response.json(), "error.message").text().find("admin key") != std::string::npos);
  }
  CHECK(s.ask(get("/admin/cache/drop", kAsAdmin)).status == 405);
  CHECK(s.engine->drops() == 0);
  const auto done = s.ask(post("/admin/cache/drop", "", kAsAdmin));
  CHECK(done.status == 200);
  CHECK(
      done.body ==
      R"({"dropped":{"paths":9,"states":4,"bytes":1000,"disk_states":3,"disk_bytes":5000000000}})");
  CHECK(s.engine->drops() == 1);
  s.engine->set_dropped(Error{ErrorCode::unavailable, "the disk cache could not be emptied", ""});
  const auto failed = s.ask(post("/admin/cache/drop", "", kAsAdmin));
  CHECK(failed.status == 503);
  CHECK(at(failed.json(), "error.message").text() == "the disk cache could not be emptied");
  // The admin's key opens nothing else.
  CHECK(s.ask(post("/v1/chat/completions", Serving::chat_body(), kAsAdmin)).status == 401);
}

TEST_CASE("the plan is for who has a key, and for the admin alone where the cache is divided") {
  const std::string plan = R"({"policy":"forest","nodes":[]})";
  {
    Serving open;
    open.engine->set_plan(plan);
    const auto response = open.ask(get("/debug/plan"));
    CHECK(response.status == 200);
    CHECK(response.headers.at("content-type") == "application/json");
    CHECK(response.body == plan);
    open.engine->set_plan(Error{ErrorCode::unavailable, "being replaced", ""});
    CHECK(open.ask(get("/debug/plan")).status == 503);
    CHECK(open.ask(post("/debug/plan", "")).status == 405);
  }
  Serving s(guarded());
  s.engine->set_plan(plan);
  CHECK(s.ask(get("/debug/plan")).status == 401);
  CHECK(s.ask(get("/debug/plan", kAsClient)).body == plan);
  CHECK(s.ask(get("/debug/plan", kAsAdmin)).body == plan);
  s.engine->set_cache_scope("key");
  CHECK(s.ask(get("/debug/plan", kAsClient)).status == 401);
  CHECK(s.ask(get("/debug/plan", kAsAdmin)).body == plan);
}

TEST_CASE("the status tells scope, price, certificate and the disk's part") {
  Serving s;
  s.metrics->plan_gap_ratio().set(0.25);
  s.metrics->plan_regret_tokens().set(7);
  s.metrics->plan_ideal_recompute_tokens().set(11);
  const auto status = s.ask(get("/status")).json();
  CHECK(at(status, "cache.scope").text() == "global");
  CHECK(at(status, "cache.price").as_double() == 0.5);
  CHECK(at(status, "cache.disk_bytes").as_int() == 3'000);
  CHECK(at(status, "cache.disk_bytes_limit").as_int() == 1 << 30);
  CHECK(at(status, "certificate.gap_ratio").as_double() == 0.25);
  CHECK(at(status, "certificate.regret_tokens").as_double() == 7);
  CHECK(at(status, "certificate.ideal_tokens").as_double() == 11);
}

TEST_CASE("who waits for the cache holds up nobody's text") {
  auto options = guarded();
  options.text_threads = 1;
  Serving s(options);
  s.engine->hold_admin(true);
  std::vector<std::unique_ptr<RawClient>> waiting;
  for (int i = 0; i < 3; ++i) {
    for (const std::string& request :
         {get("/debug/plan", kAsAdmin), post("/admin/cache/drop", "", kAsAdmin)}) {
      waiting.push_back(std::make_unique<RawClient>(s.server->port()));
      waiting.back()->send(request);
    }
  }
  for (int i = 0; i < 500 && s.engine->waiting_for_admin() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(s.engine->waiting_for_admin() == 2);
  CHECK(s.ask(post("/v1/completions", R"({"prompt":"a"})", kAsClient)).status == 200);
  CHECK(s.ask(post("/tokenize", R"({"content":"a"})", kAsClient)).status == 200);
  CHECK(s.ask(get("/health")).status == 200);
  s.engine->hold_admin(false);
  for (auto& client : waiting) CHECK(client->read().status == 200);
}

TEST_CASE("keys guard what is asked of the model and the plan; operators' pages are open") {
  Serving s(guarded());
  for (const char* open : {"/health", "/metrics", "/status", "/"}) {
    CAPTURE(open);
    CHECK(s.ask(get(open)).status == 200);
  }
  for (const char* keyed : {"/v1/models", "/v1/models/fake", "/debug/plan", "/nothing"}) {
    CAPTURE(keyed);
    CHECK(s.ask(get(keyed)).status == 401);
  }
  for (const char* keyed :
       {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}) {
    CAPTURE(keyed);
    CHECK(s.ask(post(keyed, "{}")).status == 401);
  }
}
