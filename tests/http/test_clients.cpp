// SPDX-License-Identifier: Apache-2.0
// Clients that leave, stall, or speak odd HTTP.
#include <random>

#include "tests/http/serving.hpp"

using namespace cairn;
using namespace cairn::testing;
using namespace std::chrono_literals;

namespace {

const std::string kStream = post("/v1/chat/completions", Serving::chat_body(R"("stream":true)"));
const std::string kWhole = post("/v1/chat/completions", Serving::chat_body());

void until_cancelled(FakeRun& run) {
  run.started();
  run.text("first");
  run.wait_cancelled(20s);
}

}  // namespace

TEST_CASE("B29 E10 a client that leaves a stream cancels its request") {
  Serving s;
  s.engine->set_script(until_cancelled);
  for (const bool reset : {false, true}) {
    RawClient client(s.server->port());
    client.send(kStream);
    REQUIRE(client.wait_for("first"));
    reset ? client.reset() : client.close();
    CHECK(s.engine->wait_cancels(reset ? 2 : 1));
  }
  CHECK(s.engine->wait_idle());
}

TEST_CASE("B29 a client that leaves before a whole answer, or before its first token, cancels") {
  Serving s;
  s.engine->set_script([](FakeRun& run) { run.wait_cancelled(20s); });
  std::size_t cancels = 0;
  for (const auto& request : {kWhole, kStream}) {
    RawClient client(s.server->port());
    client.send(request);
    while (s.engine->running() == 0) std::this_thread::sleep_for(1ms);
    client.close();
    CHECK(s.engine->wait_cancels(++cancels));
    CHECK(s.engine->wait_idle());
  }
}

TEST_CASE("E10 clients leaving at every step under load leave nothing behind") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    for (int i = 0; i < 20 && !run.cancelled(); ++i) {
      run.text("word ");
      run.pause(1);
    }
    if (!run.cancelled()) run.finish();
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 rng(static_cast<unsigned>(t));
      for (int i = 0; i < 15; ++i) {
        RawClient client(s.server->port());
        client.send(rng() % 2 ? kStream : kWhole);
        std::this_thread::sleep_for(std::chrono::microseconds(rng() % 25000));
        rng() % 2 ? client.reset() : client.close();
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(s.engine->wait_idle());
  for (int i = 0; i < 500 && s.server->connections() > 0; ++i) std::this_thread::sleep_for(10ms);
  CHECK(s.server->connections() == 0);
  CHECK(s.chat().status == 200);
}

TEST_CASE("a reader that is too slow is cancelled and cut off, and memory stays bounded") {
  http::ServerOptions options;
  options.max_unsent_bytes = 64 << 10;
  Serving s(options);
  std::atomic<std::int64_t> sent{0};
  s.engine->set_script([&](FakeRun& run) {
    run.started();
    const std::string words(1000, 'x');
    for (int i = 0; i < 200'000 && !run.cancelled(); ++i) {
      run.text(words);
      ++sent;
      if (i % 16 == 0) run.pause(1);  // slower than a healthy reader
    }
    if (!run.cancelled()) run.finish();
  });
  RawClient client(s.server->port(), 4096);
  client.send(kStream);
  CHECK(s.engine->wait_cancels(1, 30s));
  CHECK(sent < 20'000);
  CHECK(client.closed_by_server());
  CHECK(s.ask(get("/health")).status == 200);
}

TEST_CASE("one large event is no slow reader") {
  http::ServerOptions options;
  options.max_unsent_bytes = 1000;
  Serving s(options);
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.text(std::string(300'000, 'e'));
    run.pause(300);
    run.text("end");
    run.finish();
  });
  CHECK(s.chat(R"("stream":true)").events().size() == 5);
}

TEST_CASE("E5 a body over the limit is refused before it is read or parsed") {
  Serving s;
  RawClient client(s.server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2147483648\r\n\r\n");
  for (int i = 0; i < 64; ++i) client.send(std::string(1 << 16, '\n'));  // it goes on sending
  const auto response = client.read();
  CHECK(response.status == 413);
  CHECK(response.headers.at("connection") == "close");
  CHECK(at(response.json(), "error.message").text().find("16.00 MiB") != std::string::npos);
  CHECK(s.engine->requests().empty());
}

TEST_CASE("E5 a chunked body over the limit is refused when it gets there") {
  http::ServerOptions options;
  options.max_body_bytes = 100'000;
  Serving s(options);
  RawClient client(s.server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i)
    if (!client.send("2710\r\n" + std::string(10'000, ' ') + "\r\n")) break;
  CHECK(client.read().status == 413);
}

TEST_CASE("bodies that together are too large are refused with 503") {
  http::ServerOptions options;
  options.max_bodies_bytes = 100'000;
  Serving s(options);
  RawClient first(s.server->port());
  first.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 90001\r\n\r\n" +
             std::string(90'000, ' '));
  std::this_thread::sleep_for(100ms);
  CHECK(s.ask(post("/v1/completions", std::string(50'000, ' '))).status == 503);
  first.close();
  std::this_thread::sleep_for(100ms);
  CHECK(s.ask(post("/v1/completions", std::string(50'000, ' '))).status == 400);
}

TEST_CASE("headers over the limit are a 431") {
  Serving s;
  CHECK(s.ask(get("/health", "X: " + std::string(100'000, 'a') + "\r\n")).status == 431);
  CHECK(s.ask("GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n").status == 431);
  CHECK(s.ask(get("/health", "X: " + std::string(30'000, 'a') + "\r\n")).status == 200);
}

TEST_CASE("requests cut anywhere, sent byte by byte or several at once are understood") {
  Serving s;
  RawClient slow(s.server->port());
  for (const char c : kWhole) REQUIRE(slow.send(std::string(1, c)));
  CHECK(slow.read().status == 200);
  RawClient pipelining(s.server->port());
  pipelining.send(kWhole + get("/health") + kStream + get("/v1/typo") + kWhole);
  CHECK(at(pipelining.read().json(), "object").text() == "chat.completion");
  CHECK(at(pipelining.read().json(), "status").text() == "ok");
  CHECK(pipelining.read().events().size() == 5);
  CHECK(pipelining.read().status == 404);
  CHECK(pipelining.read().status == 200);
}

TEST_CASE("a request that arrives while an answer is made waits its turn") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.text("first");
    run.pause(300);
    run.finish();
  });
  RawClient client(s.server->port());
  client.send(kStream);
  REQUIRE(client.wait_for("first"));
  client.send(get("/health"));
  CHECK(client.read().events().back() == "[DONE]");
  CHECK(client.read().status == 200);
  CHECK(s.engine->cancels() == 0);
}

TEST_CASE("a chunked request body is read, extensions and trailers included") {
  Serving s;
  const std::string body = Serving::chat_body();
  const auto half = body.size() / 2;
  std::ostringstream request;
  request << "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
          << std::hex << half << ";name=value\r\n"
          << body.substr(0, half) << "\r\n"
          << body.size() - half << "\r\n"
          << body.substr(half) << "\r\n0\r\nTrailer: x\r\n\r\n";
  CHECK(s.ask(request.str()).status == 200);
}

TEST_CASE("Expect: 100-continue is answered before the body, and not for a body that is refused") {
  Serving s;
  const std::string body = Serving::chat_body();
  const auto head = [](std::size_t size) {
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: "
           "100-continue\r\nContent-Length: " +
           std::to_string(size) + "\r\n\r\n";
  };
  RawClient client(s.server->port());
  client.send(head(body.size()));
  CHECK(client.read().status == 100);
  client.send(body);
  CHECK(client.read().status == 200);
  CHECK(s.ask(head(1U << 30)).status == 413);
}

TEST_CASE("HTTP/1.0 clients get streams without chunks and the end of the connection") {
  Serving s;
  const std::string body = Serving::chat_body(R"("stream":true)");
  const auto response =
      s.ask("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
            "\r\n\r\n" + body);
  CHECK(response.status == 200);
  CHECK(response.headers.count("transfer-encoding") == 0);
  CHECK(response.headers.at("connection") == "close");
  CHECK(response.events().size() == 5);
  RawClient keep(s.server->port());
  for (int i = 0; i < 2; ++i) {
    keep.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(keep.read().headers.at("connection") == "keep-alive");
  }
}

TEST_CASE("Connection: close is honoured") {
  Serving s;
  RawClient client(s.server->port());
  client.send(get("/health", "Connection: close\r\n"));
  CHECK(client.read().headers.at("connection") == "close");
  CHECK(client.closed_by_server());
}

TEST_CASE("what is no HTTP is refused, and odd but legal HTTP is not") {
  Serving s;
  for (const char* bad :
       {"hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    const auto response = s.ask(bad);
    INFO(bad);
    CHECK((response.status == 400 || response.status == 505));
    CHECK(response.headers.at("connection") == "close");
    at(response.json(), "error.message");
  }
  CHECK(s.ask("GET http://host:1/health?a=b HTTP/1.1\r\nHost: x\r\n\r\n").status == 200);
  CHECK(s.ask("GET /health/ HTTP/1.1\r\nHost:x\r\nx:\r\n\r\n").status == 200);
  CHECK(s.ask(post("/v1/chat/completions", Serving::chat_body(), "Content-Encoding: gzip\r\n"))
            .status == 415);
}

TEST_CASE("a client that takes too long is cut off") {
  http::ServerOptions options;
  options.idle_timeout = 200ms;
  options.request_timeout = 300ms;
  Serving s(options);
  RawClient silent(s.server->port());
  CHECK(silent.closed_by_server());
  RawClient dripping(s.server->port());
  dripping.send("GET /health HTTP/1.1\r\n");
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(20ms);
    dripping.send("X: y\r\n");
  }
  CHECK(dripping.closed_by_server());
  RawClient used(s.server->port());
  used.send(get("/health"));
  CHECK(used.read().status == 200);
  CHECK(used.closed_by_server());
}

TEST_CASE("an answer may take longer than the timeouts for requests") {
  http::ServerOptions options;
  options.idle_timeout = 100ms;
  options.request_timeout = 100ms;
  Serving s(options);
  s.engine->set_script([](FakeRun& run) {
    run.pause(400);
    run.started();
    run.finish();
  });
  CHECK(s.chat().status == 200);
}

TEST_CASE("connections over the limit get a reason") {
  http::ServerOptions options;
  options.max_connections = 4;
  Serving s(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(s.server->port()));
    clients.back()->send(get("/health"));
    CHECK(clients.back()->read().status == 200);
  }
  const auto refused = s.ask(get("/health"));
  CHECK(refused.status == 503);
  CHECK(at(refused.json(), "error.code").text() == "too_many_connections");
  clients.pop_back();
  std::this_thread::sleep_for(100ms);
  CHECK(s.ask(get("/health")).status == 200);
}

TEST_CASE("random bytes and mutated requests never stop the server") {
  Serving s;
  std::mt19937 rng(3);
  for (int round = 0; round < 400; ++round) {
    std::string bytes = round % 2 ? kStream + kWhole : std::string(rng() % 400, '\0');
    if (round % 2 == 0)
      for (char& c : bytes) c = static_cast<char>(rng());
    else
      for (unsigned i = rng() % 8 + 1; i > 0; --i)
        bytes[rng() % bytes.size()] = static_cast<char>(rng());
    RawClient client(s.server->port());
    client.send(bytes);
    if (round % 8 == 1) client.wait_for("HTTP/1.1");
  }
  CHECK(s.ask(get("/health")).status == 200);
  CHECK(s.engine->wait_idle());
}

TEST_CASE("draining lets answers end, refuses new ones and closes idle connections") {
  Serving s;
  std::atomic<bool> go{false};
  s.engine->set_script([&](FakeRun& run) {
    run.started();
    run.text("first");
    while (!go && !run.cancelled()) run.pause(5);
    run.finish();
  });
  RawClient idle(s.server->port());
  idle.send(get("/health"));
  CHECK(idle.read().status == 200);
  RawClient busy(s.server->port());
  busy.send(kStream);
  REQUIRE(busy.wait_for("first"));
  s.server->begin_drain();
  CHECK(idle.closed_by_server());
  CHECK(s.ask(get("/health")).status == 0);
  go = true;
  CHECK(busy.read().events().back() == "[DONE]");
  CHECK(busy.closed_by_server());
  const auto before = std::chrono::steady_clock::now();
  s.server->stop(10s);
  CHECK(std::chrono::steady_clock::now() - before < 5s);
  CHECK(s.engine->cancels() == 0);
}

TEST_CASE("stopping cancels what does not end in time, and late events hurt nobody") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.text("first");
    run.wait_cancelled(20s);
    std::this_thread::sleep_for(300ms);  // events after the server is gone
    for (int i = 0; i < 100; ++i) run.text("late");
  });
  RawClient streaming(s.server->port());
  RawClient waiting(s.server->port());
  streaming.send(kStream);
  waiting.send(kWhole);
  REQUIRE(streaming.wait_for("first"));
  while (s.engine->running() < 2) std::this_thread::sleep_for(1ms);
  s.server->stop(50ms);
  s.server.reset();
  CHECK(streaming.closed_by_server());
  CHECK(s.engine->cancels() == 2);
  CHECK(s.engine->wait_idle());
}

TEST_CASE("a scrape that is not read blocks nothing") {
  Serving s;
  RawClient scraper(s.server->port(), 1024);
  std::string scrapes;
  for (int i = 0; i < 200; ++i) scrapes += get("/metrics");
  scraper.send(scrapes);
  for (int i = 0; i < 5; ++i) CHECK(s.chat().status == 200);
}
