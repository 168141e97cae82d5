// SPDX-License-Identifier: Apache-2.0
#include "http/client.hpp"

#include <future>
#include <random>

#include "http/event_lines.hpp"
#include "tests/http/serving.hpp"
#include "tests/support/no_descriptors.hpp"
#include "tests/support/sanitized.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

std::string url_of(const Serving& s) {
  return "http://127.0.0.1:" + std::to_string(s.server->port());
}

std::future<http::ClientAnswer> post(http::Client& client, std::string body,
                                     std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
  auto promise = std::make_shared<std::promise<http::ClientAnswer>>();
  auto answer = promise->get_future();
  client.post({"/v1/completions", std::move(body), timeout},
              [promise](http::ClientAnswer got) { promise->set_value(std::move(got)); });
  return answer;
}

constexpr const char* kStream = R"({"prompt":"hi","stream":true})";

}  // namespace

TEST_CASE("events are the same however their bytes are cut") {
  const std::string bytes =
      "data: one\r\n\r\nevent: x\ndata:two\n\n: note\ndata:  three\n\ndata: cut";
  const std::vector<std::string> expected = {"one", "two", " three"};
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    http::EventLines lines;
    std::vector<std::string> got;
    for (std::size_t i = 0; i < bytes.size(); i += size) {
      for (auto& data : lines.take(bytes.substr(i, size))) got.push_back(data);
    }
    CHECK(got == expected);
  }
}

TEST_CASE("a line that never ends costs no more for each piece the longer it is") {
  http::EventLines lines;
  const std::string piece(32, 'x');
  const auto begin = std::chrono::steady_clock::now();
  std::size_t got = 0;
  for (int i = 0; i < 1 << 17; ++i) got += lines.take(piece).size();
  CHECK(got == 0);
  // Looking at all of it each time would read 256 GB.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}

TEST_CASE("a stream's events come with the times at which they were read") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.text("a");
    run.pause(50);
    run.text("b");
    run.finish();
  });
  const auto client = http::Client::open(url_of(s)).take();
  const auto answer = post(*client, kStream).get();
  CHECK(answer.failure == http::ClientFailure::none);
  CHECK(answer.status == 200);
  CHECK(answer.body.empty());
  REQUIRE(answer.events.size() == 4);  // a, b, the reason, the end
  CHECK(answer.events.back().data == "[DONE]");
  CHECK(answer.events[1].at - answer.events[0].at >= std::chrono::milliseconds(40));
  CHECK(answer.ended >= answer.events.back().at);
}

TEST_CASE("what is no stream is a body, and connections are used again") {
  Serving s;
  const auto client = http::Client::open(url_of(s)).take();
  for (int i = 0; i < 5; ++i) {
    const auto answer = post(*client, i % 2 ? R"({"prompt":"hi"})" : "nonsense").get();
    CHECK(answer.status == (i % 2 ? 200 : 400));
    CHECK_FALSE(answer.body.empty());
    CHECK(answer.events.empty());
  }
  CHECK(s.server->connections() == 1);
}

TEST_CASE("a timeout, a cancel, a server that stops and one that is not there are told apart") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.text("a");
    run.pause(10'000);
  });
  const auto client = http::Client::open(url_of(s)).take();
  const auto late = post(*client, kStream, std::chrono::milliseconds(500)).get();
  CHECK(late.failure == http::ClientFailure::timeout);
  CHECK(late.events.size() == 1);  // what came is kept

  auto cut = post(*client, kStream);
  while (s.engine->requests().size() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  s.server->stop(std::chrono::milliseconds(0));
  CHECK(cut.get().failure == http::ClientFailure::closed);

  const auto refused = post(*client, kStream).get();
  CHECK(refused.failure == http::ClientFailure::connect);
  CHECK_THAT(refused.message, Catch::Contains("refused"));

  Serving other;
  other.engine->set_script([](FakeRun& run) { run.pause(10'000); });
  const auto second = http::Client::open(url_of(other)).take();
  auto waiting = post(*second, kStream);
  while (other.engine->requests().empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  second->cancel();
  CHECK(waiting.get().failure == http::ClientFailure::cancelled);
  CHECK(post(*second, kStream).get().failure == http::ClientFailure::cancelled);
}

TEST_CASE("a cancel ends streams however fast their pieces come") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    while (!run.cancelled()) {
      run.text("a");
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  for (int i = 0; i < 10; ++i) {
    const auto client = http::Client::open(url_of(s)).take();
    std::vector<std::future<http::ClientAnswer>> answers;
    for (int k = 0; k < 4; ++k) answers.push_back(post(*client, kStream));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    client->cancel();
    for (auto& answer : answers) {
      REQUIRE(answer.wait_for(std::chrono::seconds(5)) == std::future_status::ready);
      CHECK(answer.get().failure == http::ClientFailure::cancelled);
    }
  }
}

TEST_CASE("a connection that the server closed while idle is replaced unseen") {
  http::ServerOptions options;
  options.idle_timeout = std::chrono::milliseconds(20);
  Serving s(options);
  const auto client = http::Client::open(url_of(s)).take();
  CHECK(post(*client, kStream).get().status == 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto answer = post(*client, kStream).get();
  CHECK(answer.failure == http::ClientFailure::none);
  CHECK(answer.status == 200);
}

TEST_CASE("a client without descriptors does not take it for a server that is not there") {
  if (kSanitized) return;
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.wait_cancelled(std::chrono::seconds(10));
  });
  for (const bool connected : {false, true}) {
    const auto client = http::Client::open(url_of(s)).take();
    std::future<http::ClientAnswer> first;
    if (connected) {
      const std::size_t before = s.engine->requests().size();
      first = post(*client, kStream);
      while (s.engine->requests().size() == before) std::this_thread::yield();
    }
    const NoDescriptors none;
    const auto answer = post(*client, kStream).get();
    CHECK(answer.failure == http::ClientFailure::local);
    CHECK_THAT(answer.message, Catch::Contains("open files"));
  }
}

TEST_CASE("a URL that is none is refused before anything is sent") {
  for (const char* url : {"", "https://x", "http://", "http://a:99999", "http://127.0.0.1/v1"}) {
    INFO(url);
    CHECK(http::Client::open(url).error().code == ErrorCode::bad_request);
  }
}
