// SPDX-License-Identifier: Apache-2.0
// A server on a free port in front of a fake engine.
#pragma once

#include <memory>
#include <string>

#include "http/server.hpp"
#include "tests/http/fake_engine.hpp"
#include "tests/http/raw_client.hpp"
#include "tests/support/catch.hpp"

namespace cairn::testing {

struct Serving {
  explicit Serving(http::ServerOptions options = {}) {
    options.port = 0;
    server = std::make_unique<http::Server>(engine, metrics, std::move(options));
    const auto status = server->start();
    REQUIRE(status.ok());
  }

  RawResponse ask(const std::string& request, bool no_body = false) {
    RawClient client(server->port());
    client.send(request);
    return client.read(no_body);
  }
  RawResponse chat(const std::string& fields = "") {
    return ask(post("/v1/chat/completions", chat_body(fields)));
  }
  static std::string chat_body(const std::string& fields = "") {
    return R"({"messages":[{"role":"user","content":"hi"}])" +
           (fields.empty() ? "" : "," + fields) + "}";
  }

  std::shared_ptr<FakeEngine> engine = std::make_shared<FakeEngine>();
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  std::unique_ptr<http::Server> server;
};

}  // namespace cairn::testing
