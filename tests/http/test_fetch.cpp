// SPDX-License-Identifier: Apache-2.0
#include "http/fetch.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/url.hpp"
#include "tests/http/serving.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

std::string url_of(const Serving& s, const std::string& path) {
  return "http://127.0.0.1:" + std::to_string(s.server->port()) + path;
}

}  // namespace

TEST_CASE("a page of a running server is fetched whole") {
  Serving s;
  const auto body = http::fetch(url_of(s, "/v1/models"));
  REQUIRE(body.ok());
  CHECK(*body == s.ask(get("/v1/models")).body);
}

TEST_CASE("a key is sent where one is asked for") {
  http::ServerOptions options;
  options.api_keys = {"secret"};
  Serving s(options);
  const auto refused = http::fetch(url_of(s, "/v1/models"));
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("answered 401"));
  http::FetchOptions with_key;
  with_key.api_key = "secret";
  CHECK(http::fetch(url_of(s, "/v1/models"), with_key).ok());
}

TEST_CASE("a body is posted") {
  Serving s;
  http::FetchOptions options;
  options.post = R"({"prompt":"hi"})";
  const auto body = http::fetch(url_of(s, "/v1/completions"), options);
  REQUIRE(body.ok());
  CHECK_THAT(*body, Catch::Contains("Hello world"));
}

TEST_CASE("what is not there, not reached, too large or no URL is an error in one sentence") {
  Serving s;
  const std::string typo = http::fetch(url_of(s, "/typo")).error().message;
  CHECK_THAT(typo, Catch::Contains("answered 404"));
  CHECK(typo.find('\n') == std::string::npos);
  http::FetchOptions small;
  small.max_body_bytes = 3;
  CHECK(http::fetch(url_of(s, "/v1/models"), small).error().code == ErrorCode::unavailable);
  const std::string gone = url_of(s, "/v1/models");
  s.server->stop(std::chrono::milliseconds(0));
  CHECK(http::fetch(gone).error().code == ErrorCode::unavailable);
  for (const char* url : {"", "https://x/", "http://", "http:///x", "http://a b/", "/file",
                          "http://a:99999/", "http://a:-1/"}) {
    INFO(url);
    CHECK(http::fetch(url).error().code == ErrorCode::bad_request);
  }
}

TEST_CASE("a server that accepts and never answers is given up in time") {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener, raw, size) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  REQUIRE(::getsockname(listener, raw, &size) == 0);
  http::FetchOptions options;
  options.timeout = std::chrono::milliseconds(100);
  const auto start = std::chrono::steady_clock::now();
  const auto late =
      http::fetch("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)), options);
  CHECK_FALSE(late.ok());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  ::close(listener);
}

TEST_CASE("a Host header has an IPv6 address in brackets") {
  const auto header = [](const char* url) { return http::host_header(*http::split_url(url)); };
  CHECK(header("http://[::1]:8080/x") == "[::1]:8080");
  CHECK(header("http://[fe80::1]") == "[fe80::1]:80");
  CHECK(header("http://localhost:81") == "localhost:81");
}
