// SPDX-License-Identifier: Apache-2.0
// What is asked for, when, and what a cache without limits would make of it.
#include <map>
#include <numeric>
#include <set>

#include "base/check.hpp"
#include "cli/load/exact_cache.hpp"
#include "cli/load/kept.hpp"
#include "cli/load/needed.hpp"
#include "cli/load/random.hpp"
#include "cli/load/repeats.hpp"
#include "cli/load/spread.hpp"
#include "cli/load/workload.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::load;

namespace {

WorkloadOptions only(std::initializer_list<Kind> kinds) {
  WorkloadOptions o;
  o.vocabulary = 50'000;
  o.document_tokens = 100;
  o.question_tokens = 10;
  for (const Kind kind : kinds) o.weights[static_cast<std::size_t>(kind)] = 1;
  return o;
}

std::size_t common(const Tokens& a, const Tokens& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

std::vector<Planned> take(const WorkloadOptions& options, int count) {
  Workload workload(options);
  std::vector<Planned> out;
  for (int i = 0; i < count; ++i) out.push_back(workload.next());
  return out;
}

}  // namespace

TEST_CASE("a document is asked about so many times, and no more than so many are open") {
  auto options = only({Kind::documents});
  options.documents = 3;
  options.questions = 5;
  std::map<Tokens, int> asked;
  std::set<Tokens> questions;
  for (const Planned& p : take(options, 300)) {
    REQUIRE(p.tokens.size() == 110);
    ++asked[Tokens(p.tokens.begin(), p.tokens.begin() + 100)];
    questions.insert(Tokens(p.tokens.begin() + 100, p.tokens.end()));
  }
  CHECK(questions.size() == 300);
  int open = 0;
  for (const auto& [document, times] : asked) {
    CHECK(times <= 5);
    open += times < 5;
  }
  CHECK(open <= 3);
  CHECK(asked.size() >= 60);
}

TEST_CASE("prompts leave a document once at each place, after one look at all of it") {
  auto options = only({Kind::overlaps});
  options.leave = {23, 50, 100};
  const auto plan = take(options, 8);
  std::multiset<std::size_t> places;
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(plan[i].tokens.size() == plan[0].tokens.size());
    places.insert(common(plan[0].tokens, plan[i].tokens));
  }
  CHECK(places == std::multiset<std::size_t>{23, 50, 100});
  CHECK(common(plan[0].tokens, plan[4].tokens) < 3);
}

TEST_CASE("conversations take turns and number them") {
  auto options = only({Kind::chat});
  options.conversations = 2;
  options.turns = 3;
  options.opening_tokens = 7;
  options.message_tokens = 4;
  const auto plan = take(options, 8);
  const std::int64_t sessions[] = {0, 1, 0, 1, 0, 1, 2, 3};
  const std::int32_t turns[] = {0, 0, 1, 1, 2, 2, 0, 0};
  for (std::size_t i = 0; i < plan.size(); ++i) {
    CHECK(plan[i].session == sessions[i]);
    CHECK(plan[i].turn == turns[i]);
    CHECK(plan[i].tokens.size() == (turns[i] == 0 ? 7U : 4U));
  }
}

TEST_CASE("a workload depends on its seed alone, and a kind not on the others of its mix") {
  const auto mixed = only({Kind::documents, Kind::chat, Kind::short_prompts, Kind::overlaps});
  const auto first = take(mixed, 200), again = take(mixed, 200);
  std::vector<Tokens> chats;
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].tokens == again[i].tokens);
    if (first[i].kind == Kind::chat) chats.push_back(first[i].tokens);
  }
  CHECK(chats.size() > 20);
  const auto alone = take(only({Kind::chat}), static_cast<int>(chats.size()));
  for (std::size_t i = 0; i < chats.size(); ++i) CHECK(alone[i].tokens == chats[i]);
  auto other = mixed;
  other.seed = 2;
  CHECK(take(other, 1)[0].tokens != first[0].tokens);
}

TEST_CASE("kinds come as often as their weights say") {
  auto options = only({Kind::documents});
  options.weights = {3, 0, 0, 1};
  int documents = 0;
  for (const Planned& p : take(options, 4000)) documents += p.kind == Kind::documents;
  CHECK(documents == Approx(3000).margin(120));
}

TEST_CASE("workloads that are not possible are refused") {
  auto none = only({});
  CHECK_THROWS_AS(Workload(none), LoadError);
  auto negative = only({Kind::chat});
  negative.weights[0] = -1;
  CHECK_THROWS_AS(Workload(negative), LoadError);
  auto beyond = only({Kind::overlaps});
  beyond.leave = {101};
  CHECK_THROWS_AS(Workload(beyond), LoadError);
  auto wordless = only({Kind::chat});
  wordless.vocabulary = 0;
  CHECK_THROWS_AS(Workload(wordless), LoadError);
  CHECK_THROWS_AS(kind_of("magic"), LoadError);
}

TEST_CASE("the cache without limits needs what comparing with every sequence finds") {
  std::mt19937_64 random(3);
  ExactCache cache;
  std::vector<Tokens> known;
  for (int i = 0; i < 600; ++i) {
    Tokens prompt;  // few symbols, so that many share a part
    for (std::int64_t n = 1 + below(random, 9); n > 0; --n) {
      prompt.push_back(static_cast<std::int32_t>(below(random, 3)));
    }
    std::size_t shared = 0;
    for (const Tokens& each : known) shared = std::max(shared, common(each, prompt));
    const auto expected = prompt.size() - std::min(shared, prompt.size() - 1);
    CHECK(cache.needed(prompt) == static_cast<std::int64_t>(expected));
    cache.add(prompt);
    known.push_back(prompt);
  }
  cache.clear();
  CHECK(cache.needed({1, 2, 3}) == 3);
}

TEST_CASE("prompts are known from their sending, answers from their end but for the last token") {
  std::vector<Record> records(4);
  const auto set = [&](std::size_t i, double sent, double ended, Tokens prompt, Tokens answer) {
    records[i].sent = sent;
    records[i].ended = ended;
    records[i].prompt = std::move(prompt);
    records[i].answer = std::move(answer);
  };
  set(0, 0, 10, {1, 2, 3}, {4, 5, 6});
  set(1, 5, 6, {1, 2, 9, 9}, {});                 // while the first is computed
  set(2, 11, 12, {1, 2, 3, 4, 5, 6, 7}, {});      // goes on from its answer
  set(3, 5.5, 12, {1, 2, 3, 4, 5, 6, 8, 8}, {});  // before that answer was there
  records[1].error = "timeout";
  ExactCache cache;
  count_needed(records, cache);
  CHECK(records[0].needed == 3);
  CHECK_FALSE(records[1].needed);
  CHECK(records[2].needed == 1);  // the fourth had computed up to 6
  CHECK(records[3].needed == 5);
  records[3].error = "timeout";
  cache.clear();
  count_needed(records, cache);
  CHECK(records[2].needed == 2);  // 6 was told, not computed with
}

TEST_CASE("a percentile is the least value that so many do not exceed") {
  std::mt19937_64 random(5);
  for (int size = 1; size < 60; ++size) {
    std::vector<double> values;
    for (int i = 0; i < size; ++i) values.push_back(static_cast<double>(below(random, 20)));
    Spread spread;
    for (const double v : values) spread.add(v);
    for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
      double least = 1e9;
      for (const double v : values) {
        const auto within =
            std::count_if(values.begin(), values.end(), [v](double x) { return x <= v; });
        if (static_cast<double>(within) >= share * size - 1e-9) least = std::min(least, v);
      }
      CHECK(spread.percentile(share) == least);
    }
    CHECK(spread.most() == *std::max_element(values.begin(), values.end()));
    CHECK(spread.mean() == Approx(std::accumulate(values.begin(), values.end(), 0.0) / size));
  }
  CHECK(Spread().percentile(0.99) == 0);
}

TEST_CASE("of many values the percentiles are a little too large, all else is exact") {
  constexpr int kCount = 20'000;
  Spread spread;
  std::mt19937_64 random(9);
  std::vector<double> values;
  for (int i = 0; i < kCount; ++i) values.push_back(1e-3 + std::exp(12 * unit(random)));
  for (const double v : values) spread.add(v);
  std::sort(values.begin(), values.end());
  CHECK_FALSE(spread.exact());
  CHECK(spread.count() == kCount);
  CHECK(spread.most() == values.back());
  CHECK(spread.mean() ==
        Approx(std::accumulate(values.begin(), values.end(), 0.0) / kCount).epsilon(1e-9));
  for (const double share : {0.01, 0.5, 0.9, 0.99}) {
    const double exact = values[static_cast<std::size_t>(share * kCount) - 1];
    const double told = spread.percentile(share);
    CHECK(told >= exact * (1 - 1e-9));
    CHECK(told <= exact * (1 + Spread::kStep) * (1 + 1e-9));
  }
  CHECK(spread.error() == Spread::kStep);
  for (const std::uint64_t most : {spread.bytes(), spread.bytes() / 2, std::uint64_t{8192}}) {
    spread.shrink(most);
    CHECK(spread.bytes() <= most);
    CHECK(spread.count() == kCount);
    const double exact = values[kCount / 2 - 1];
    CHECK(spread.percentile(0.5) >= exact * (1 - 1e-9));
    CHECK(spread.percentile(0.5) <= exact * (1 + spread.error()) * (1 + 1e-9));
    CHECK((spread.error() > Spread::kStep) == (most < 100'000));
  }
  CHECK(spread.error() < 0.2);
  const auto curve = spread.within(100);
  CHECK(curve.size() < 250);
  CHECK(curve.back() == std::pair(values.back(), std::int64_t{kCount}));
}

TEST_CASE("many requests take no more memory than they may, and the slowest one stays") {
  constexpr std::uint64_t kBytes = 300'000;
  Kept kept(kBytes);
  const auto request = [](int i) {
    Record r;
    r.sent = r.intended = i;
    r.ended = i + (i == 500 ? 9 : 1);
    r.prompt.assign(1000, 1);
    return r;
  };
  for (int i = 0; i < 50; ++i) kept.add(request(i));
  CHECK(kept.whole());
  for (int i = 50; i < 150; ++i) kept.add(request(i));
  CHECK_FALSE(kept.whole());
  CHECK(kept.every());
  for (int i = 150; i < 2000; ++i) kept.add(request(i));
  CHECK_FALSE(kept.every());
  const auto records = kept.take();
  CHECK(records.size() > 100);
  std::uint64_t bytes = 0;
  bool slowest = false;
  for (const Record& r : records) {
    bytes += bytes_of(r);
    slowest = slowest || r.sent == 500;
  }
  CHECK(bytes <= kBytes);
  CHECK(slowest);
}

TEST_CASE("answers are compared with the first to the same request, as far as there is room") {
  Repeats repeats(2);
  const auto answer = [&](const char* request, const char* text, Tokens ids, const char* error) {
    Record r;
    r.digest = request;
    r.text = text;
    r.answer = std::move(ids);
    r.error = error;
    repeats.add(r);
  };
  answer("a", "x", {1}, "");
  answer("a", "x", {1}, "");
  answer("a", "x", {2}, "");
  answer("a", "y", {1}, "");
  answer("a", "y", {1}, "timeout");
  answer("b", "", {}, "");
  answer("c", "", {}, "");  // no more room
  answer("c", "z", {}, "");
  CHECK(repeats.compared() == 3);
  CHECK(repeats.different() == 2);
  CHECK(repeats.forgotten() == 2);
}

TEST_CASE("arrivals are a Poisson process of the rate asked for, the same for a seed") {
  constexpr int kCount = 20'000;
  constexpr double kRate = 50;
  Arrivals arrivals(kRate, 7), again(kRate, 7), other(kRate, 8);
  CHECK(other.next() != Arrivals(kRate, 7).next());
  double before = 0, sum = 0, squares = 0;
  int beyond = 0;
  for (int i = 0; i < kCount; ++i) {
    const double at = arrivals.next();
    CHECK(at == again.next());
    const double gap = at - before;
    REQUIRE(gap >= 0);
    before = at;
    sum += gap;
    squares += gap * gap;
    beyond += gap > 1 / kRate;
  }
  const double mean = sum / kCount;
  CHECK(mean * kRate == Approx(1).margin(0.03));
  CHECK((squares / kCount - mean * mean) / (mean * mean) == Approx(1).margin(0.06));
  CHECK(beyond / double{kCount} == Approx(std::exp(-1.0)).margin(0.015));
}
