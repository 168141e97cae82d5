// SPDX-License-Identifier: Apache-2.0
// Loads on a server in front of an engine that does what the test says.
#include "cli/load/load.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/check.hpp"
#include "tests/http/serving.hpp"
#include "tests/support/no_descriptors.hpp"
#include "tests/support/sanitized.hpp"

using namespace cairn;
using namespace cairn::load;
using namespace cairn::testing;

namespace {

LoadOptions options_for(const Serving& s, Kind kind) {
  LoadOptions o;
  o.url = "http://127.0.0.1:" + std::to_string(s.server->port());
  o.workload.weights[static_cast<std::size_t>(kind)] = 1;
  o.workload.document_tokens = 20;
  o.workload.question_tokens = 4;
  o.workload.opening_tokens = o.workload.message_tokens = 5;
  o.workload.turns = 3;
  o.workload.conversations = 2;
  o.ask.chat_messages = false;
  o.ask.max_tokens = 2;
  o.limits.requests = 6;
  o.passes = 1;
  return o;
}

Report load_on(const LoadOptions& options) {
  const std::atomic<bool> stop{false};
  return run_load(options, stop);
}

WorkloadOptions with_vocabulary(WorkloadOptions options, std::int32_t vocabulary = 1000) {
  options.vocabulary = vocabulary;
  return options;
}

/// The runner with no load around it.
struct Alone {
  explicit Alone(const LoadOptions& options)
      : limits(options.limits),
        client(http::Client::open(options.url).take()),
        asker(options.ask),
        workload(with_vocabulary(options.workload)) {
    asker.restart();
  }
  RunResult operator()(const Sink& sink) {
    const Source source = [this] {
      if (++planned == stop_at) stop = true;
      return workload.next();
    };
    return run(*client, asker, source, sink, limits, stop);
  }

  RunLimits limits;
  std::unique_ptr<http::Client> client;
  Asker asker;
  Workload workload;
  std::atomic<bool> stop{false};
  int planned = 0, stop_at = -1;
};

/// What the runner gives, whole records.
std::vector<Record> records_of(const LoadOptions& options, RunResult* result = nullptr,
                               const std::function<void()>& before = {}) {
  Alone alone(options);
  std::vector<Record> records;
  if (before) before();
  const RunResult got = alone([&](Record record) { records.push_back(std::move(record)); });
  if (result) *result = got;
  return records;
}

const Tokens& prompt_of(const GenerateRequest& request) { return std::get<Tokens>(request.prompt); }

}  // namespace

TEST_CASE("both passes ask the same, warm-ups apart, and answers are compared") {
  Serving s;
  auto options = options_for(s, Kind::documents);
  options.warm_up = 2;
  options.passes = 2;
  const Report report = load_on(options);
  CHECK(report.ended == "complete");
  REQUIRE(report.passes.size() == 2);
  CHECK(report.compared == 8);
  CHECK(report.different == 0);
  const auto requests = s.engine->requests();
  REQUIRE(requests.size() == 16);
  for (std::size_t i = 0; i < 8; ++i) CHECK(prompt_of(requests[i]) == prompt_of(requests[i + 8]));
  for (const Pass& pass : report.passes) {
    REQUIRE(pass.groups.size() == 1);
    const Group& group = pass.groups[0];
    CHECK(group.answered == 6);
    CHECK(group.first_ms.count() == 6);
    CHECK(group.gap_ms.count() == 6);  // two tokens each
    CHECK(group.answer_tokens == 12);
    CHECK(group.needed == (pass.name == "first pass" ? group.needed : 6));
  }
  const GenerateRequest& any = requests[0];
  CHECK(any.ignore_eos);
  CHECK(any.sampling.temperature == 0.F);
  CHECK(any.max_tokens == 2);
}

TEST_CASE("answers that change are counted") {
  Serving s;
  std::atomic<int> calls{0};
  s.engine->set_script([&](FakeRun& run) {
    run.started();
    run.text(calls++ == 7 ? "other" : "same");
    run.finish();
  });
  auto options = options_for(s, Kind::short_prompts);
  options.passes = 2;
  const Report report = load_on(options);
  CHECK(report.compared == 6);
  CHECK(report.different == 1);
}

TEST_CASE("a turn carries all that was said before it, and follows the answer to that") {
  for (const bool open : {false, true}) {
    Serving s;
    s.engine->set_script([](FakeRun& run) {
      run.started();
      run.pause(5);
      run.text("a");  // token 1
      run.finish();
    });
    auto options = options_for(s, Kind::chat);
    options.limits.concurrency = 4;
    if (open) options.limits.rate = 2000;
    const auto records = records_of(options);
    std::vector<Tokens> messages(6);
    Workload workload(with_vocabulary(options.workload));
    for (Tokens& message : messages) message = workload.next().tokens;
    std::map<std::int64_t, Tokens> said;
    REQUIRE(records.size() == 6);
    for (const Record& r : records) {
      Tokens& before = said[r.planned.session];
      const Tokens& message =
          messages[static_cast<std::size_t>(2 * r.planned.turn + r.planned.session)];
      before.insert(before.end(), message.begin(), message.end());
      CHECK(r.prompt == before);
      CHECK(before.size() == static_cast<std::size_t>(5 * (r.planned.turn + 1) + r.planned.turn));
      before.push_back(1);
      CHECK(r.sent >= r.intended);
    }
  }
}

TEST_CASE("conversations as messages repeat what the server said") {
  Serving s;
  auto options = options_for(s, Kind::chat);
  options.ask.chat_messages = true;
  options.limits.requests = 3;
  options.workload.conversations = 1;
  const Report report = load_on(options);
  CHECK(report.passes[0].groups[0].answered == 3);
  const auto requests = s.engine->requests();
  REQUIRE(requests.size() == 3);
  const auto& last = std::get<ChatPrompt>(requests[2].prompt).messages_json;
  const auto messages = json::parse(last);
  REQUIRE(messages->items().size() == 5);
  CHECK(messages->items()[3].find("role")->text() == "assistant");
  CHECK(messages->items()[3].find("content")->text() == "Hello world");
}

TEST_CASE("a turn whose conversation broke off is not sent") {
  Serving s;
  s.engine->set_script([](FakeRun& run) { run.fail(ErrorCode::internal, "broken"); });
  auto options = options_for(s, Kind::chat);
  const Report report = load_on(options);
  CHECK(s.engine->requests().size() == 2);
  CHECK(report.passes[0].groups[0].errors ==
        std::map<std::string, std::int64_t>{{"earlier turn", 4}, {"status 500", 2}});
}

TEST_CASE("a conversation that has ended is forgotten, whether it was answered or not") {
  Serving s;
  std::atomic<int> calls{0};
  s.engine->set_script([&](FakeRun& run) {
    if (++calls == 4) return run.fail(ErrorCode::internal, "broken");
    run.started();
    run.text("a");
    run.finish();
  });
  Alone alone(options_for(s, Kind::chat));
  int answered = 0;
  alone([&](const Record& record) { answered += record.answered() ? 1 : 0; });
  CHECK(answered == 4);
  for (const std::int64_t session : {0, 1}) {
    Planned first;
    first.session = session;
    CHECK(alone.asker.may_ask(first));
  }
}

TEST_CASE("arrivals that outrun the sending do not keep a stop from being seen") {
  Serving s;
  auto options = options_for(s, Kind::short_prompts);
  options.limits.rate = 1e6;
  options.limits.requests = 1000;
  Alone alone(options);
  alone.stop_at = 10;
  alone([](const Record&) {});
  CHECK(alone.planned == 10);
}

TEST_CASE("turns that no answer makes way for are given up and counted, in bounded memory") {
  Serving s;
  std::atomic<int> answered{0}, failed{0};
  s.engine->set_script([&](FakeRun& run) {
    while (failed < 30) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run.started();
    run.text("a");
    run.finish();
  });
  auto options = options_for(s, Kind::chat);
  options.limits.rate = 1e5;
  options.limits.requests = 60;
  options.limits.waiting_bytes = 4 * sizeof(Record);
  options.workload.turns = 15;  // of two conversations, then of two more
  Alone alone(options);
  std::map<std::string, int> errors;
  alone([&](const Record& record) {
    if (!record.answered()) ++errors[record.error];
    ++(record.answered() ? answered : failed);
  });
  CHECK(answered + failed == 60);
  CHECK(answered >= 4);   // the first of each
  CHECK(answered <= 12);  // and no more than waited
  CHECK(errors["not sent"] >= 30);
  CHECK(errors["not sent"] + errors["earlier turn"] == failed);
  for (int session = 0; session < 4; ++session) {
    Planned first;
    first.session = session;
    CHECK(alone.asker.may_ask(first));  // nothing of it is kept
  }
}

TEST_CASE("what a server says is bounded: counts that are none are not told, complaints are cut") {
  Asker asker({});
  const auto take = [&](const std::string& prompt, const std::string& cached) {
    http::ClientAnswer answer;
    answer.status = 200;
    answer.events = {{{},
                      R"({"usage":{"prompt_tokens":)" + prompt +
                          R"(,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":)" +
                          cached + "}}}"},
                     {{}, "[DONE]"}};
    Record record;
    asker.take(record, answer);
    CHECK(record.answered());
    CHECK(record.answer_tokens == 7);
    return record;
  };
  CHECK(take("9", "4").computed() == 5);
  CHECK_FALSE(take("4", "9").computed());
  for (const char* none : {"-1", "1e300", "-1e300", "9223372036854775807", "2147483648"}) {
    CHECK_FALSE(take(none, "0").prompt_tokens);
    CHECK_FALSE(take("9", none).cached_tokens);
  }
  http::ClientAnswer answer;
  answer.status = 500;
  answer.body = R"({"error":{"message":")" + std::string(100'000, 'x') + "\"}}";
  Record record;
  asker.take(record, answer);
  CHECK(record.message == std::string(300, 'x'));
}

TEST_CASE("the closed loop holds so many requests and no more") {
  Serving s;
  std::atomic<int> running{0}, most{0};
  s.engine->set_script([&](FakeRun& run) {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    run.started();
    run.pause(10);
    run.text("a");
    --running;
    run.finish();
  });
  auto options = options_for(s, Kind::short_prompts);
  options.limits.requests = 12;
  options.limits.concurrency = 3;
  CHECK(load_on(options).passes[0].groups[0].answered == 12);
  CHECK(most == 3);
}

TEST_CASE("in the open loop a stalled server shows in every request that came meanwhile") {
  Serving s;
  std::mutex one_at_a_time;
  std::atomic<int> calls{0};
  s.engine->set_script([&](FakeRun& run) {
    const std::lock_guard lock(one_at_a_time);
    if (calls++ == 0) run.pause(200);
    run.started();
    run.text("a");
    run.finish();
  });
  auto options = options_for(s, Kind::short_prompts);
  options.limits.rate = 500;
  options.limits.requests = 20;
  const Group group = load_on(options).passes[0].groups[0];
  CHECK(group.answered == 20);
  CHECK(group.first_ms.percentile(0.5) > 100);  // all arrive within about 40 ms
}

TEST_CASE("a duration ends the sending") {
  Serving s;
  auto options = options_for(s, Kind::short_prompts);
  options.limits.requests = 1'000'000;
  options.limits.seconds = 0.1;
  const Report report = load_on(options);
  CHECK(report.ended == "complete");
  CHECK(report.passes[0].seconds < 5);
  CHECK(report.passes[0].groups[0].answered > 1);
}

TEST_CASE("after its duration a pass sends no turns that have waited for others") {
  Serving s;
  s.engine->set_script([](FakeRun& run) {
    run.started();
    run.pause(30);
    run.text("a");
    run.finish();
  });
  auto options = options_for(s, Kind::chat);
  options.workload.conversations = 1;
  options.workload.turns = 50;
  options.limits.rate = 1000;
  options.limits.requests = 50;
  options.limits.seconds = 0.15;
  const Report report = load_on(options);
  CHECK(report.ended == "complete");
  CHECK(report.passes[0].groups[0].answered >= 1);
  CHECK(report.passes[0].records.size() <= 6);  // each takes 30 ms, all 50 arrive within about 50
}

TEST_CASE("errors are counted by kind, and a server that dies leaves what was measured") {
  Serving s;
  s.engine->refuse_next(Error{ErrorCode::queue_full, "full", ""});
  std::atomic<int> calls{0};
  s.engine->set_script([&](FakeRun& run) {
    run.started();
    run.text("a");
    if (++calls == 2) {
      run.pause(30);  // the stream has begun
      return run.fail(ErrorCode::internal, "broke");
    }
    if (calls == 3) run.pause(10'000);
    run.finish();
  });
  auto options = options_for(s, Kind::short_prompts);
  options.limits.requests = 100;
  options.passes = 2;
  std::thread killer([&] {
    while (calls < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    s.server->stop(std::chrono::milliseconds(0));
  });
  const Report report = load_on(options);
  killer.join();
  CHECK_THAT(report.ended, Catch::Contains("no longer answers"));
  REQUIRE(report.passes.size() == 1);
  CHECK(report.passes[0].groups[0].answered == 1);
  std::string errors;
  for (const auto& [kind, count] : report.passes[0].groups[0].errors) {
    errors += kind + " " + std::to_string(count) + ", ";
  }
  CHECK(errors == "closed 1, connect 3, in stream 1, status 429 1, ");
}

TEST_CASE("a client at its own limits is not taken for a server that is gone") {
  if (kSanitized) return;
  Serving s;
  auto options = options_for(s, Kind::short_prompts);
  std::optional<NoDescriptors> none;
  RunResult result;
  const auto records = records_of(options, &result, [&] { none.emplace(); });
  none.reset();
  CHECK_THAT(result.broken, Catch::Contains("this machine") && Catch::Contains("open files") &&
                                !Catch::Contains("server"));
  REQUIRE(records.size() == 1);
  CHECK(records[0].error == "local");
}

TEST_CASE("what a load keeps does not grow with its requests, its figures are of all") {
  Serving s;
  auto options = options_for(s, Kind::documents);
  options.limits.requests = 200;
  options.limits.concurrency = 4;
  options.passes = 2;
  options.memory_bytes = 100'000;
  const Report report = load_on(options);
  REQUIRE(report.passes.size() == 2);
  for (const Pass& pass : report.passes) {
    CHECK_FALSE(pass.every);
    CHECK(pass.records.size() < 50);
    CHECK(pass.groups[0].answered == 200);
    CHECK(pass.groups[0].total_ms.count() == 200);
    CHECK(pass.groups[0].bytes() <= 5000);  // half of a pass's part of a fifth
    CHECK_FALSE(pass.groups[0].needed);     // of a cache that would not fit
  }
  CHECK(report.compared > 50);
  CHECK(report.not_compared > 200);  // in both passes
  CHECK(report.different == 0);
}

TEST_CASE("a stop ends the load at once and keeps what was answered") {
  Serving s;
  std::atomic<int> calls{0};
  s.engine->set_script([&](FakeRun& run) {
    run.started();
    run.text("a");
    if (++calls > 2) run.pause(10'000);
    run.finish();
  });
  auto options = options_for(s, Kind::short_prompts);
  std::atomic<bool> stop{false};
  std::thread stopper([&] {
    while (calls < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop = true;
  });
  const Report report = run_load(options, stop);
  stopper.join();
  CHECK(report.ended == "interrupted");
  CHECK(report.passes[0].groups[0].answered == 2);
  CHECK(report.passes[0].groups[0].failed() == 0);
}

TEST_CASE("the cache is dropped before the passes that it is to be, or the load does not begin") {
  http::ServerOptions server;
  server.admin_key = "admin";
  Serving s(server);
  auto options = options_for(s, Kind::documents);
  options.passes = 3;
  options.drop = Drop::first;
  CHECK_THROWS_AS(load_on(options), LoadError);  // no key
  options.admin_key = "admin";
  CHECK(load_on(options).passes.size() == 3);
  CHECK(s.engine->drops() == 1);
  options.drop = Drop::each;
  const Report report = load_on(options);
  CHECK(s.engine->drops() == 4);
  CHECK(report.passes[0].groups[0].needed == report.passes[2].groups[0].needed);
}

TEST_CASE("text is told from its tokens afterwards") {
  Serving s;
  auto options = options_for(s, Kind::short_prompts);
  options.ask.text = true;
  const Report report = load_on(options);
  CHECK(std::get<TextPrompt>(s.engine->requests()[0].prompt).text ==
        words_of(Workload(with_vocabulary(options.workload, 4096)).next().tokens));
  CHECK(report.passes[0].groups[0].needed);
}

TEST_CASE("a load that cannot work says so before it begins") {
  Serving s;
  auto options = options_for(s, Kind::documents);
  options.workload.document_tokens = 5000;
  CHECK_THROWS_WITH(load_on(options), Catch::Contains("context of 4096"));
  options.workload.document_tokens = 900;  // of which the server makes more than so many tokens
  options.ask.text = true;
  CHECK_THROWS_WITH(load_on(options), Catch::Contains("context of 4096"));
  options = options_for(s, Kind::documents);
  s.server->stop(std::chrono::milliseconds(0));
  CHECK_THROWS_WITH(load_on(options), Catch::Contains("refused"));
  options.url = "nowhere";
  CHECK_THROWS_AS(load_on(options), LoadError);
}
