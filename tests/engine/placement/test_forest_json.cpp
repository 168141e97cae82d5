// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "base/json.hpp"
#include "engine/placement/plan_solve.hpp"
#include "tests/engine/placement/forest_oracle.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

json::Value solved(const std::string& text) {
  const auto answer = solve_plan_json(text);
  if (!answer) FAIL(answer.error().message);
  return json::parse(*answer).take();
}

double number(const json::Value& v, const char* key) { return v.find(key)->as_double(); }

std::vector<std::int64_t> nodes(const json::Value& v, const char* key) {
  std::vector<std::int64_t> out;
  for (const auto& p : v.find(key)->items()) out.push_back(p.as_int());
  return out;
}

using Nodes = std::vector<std::int64_t>;

// A document and two questions on it, beside a prompt that nobody shares.
std::string library(const std::string& limit) {
  return R"({"nodes":[{"parent":-1,"depth":1000,"demand":0.25},
                      {"parent":0,"depth":1100,"demand":1.5,"can_hold":true,"pinned":false},
                      {"parent":0,"depth":1050,"demand":0.5,"can_hold":false},
                      {"parent":-1,"depth":400,"demand":0.01}],
             "state_bytes":2000,"kv_bytes_per_token":10,)" +
         limit + "}";
}

}  // namespace

TEST_CASE("a forest under a price is answered with states, kept edges and their value") {
  const json::Value plan = solved(library(R"("price":0.05)"));
  CHECK(nodes(plan, "states") == Nodes{0});
  CHECK(nodes(plan, "kept_edges") == Nodes{0});
  CHECK(number(plan, "bytes") == 12'000);
  CHECK(number(plan, "cost") == Approx(1.5 * 100 + 0.5 * 50 + 0.01 * 400));
  CHECK(number(plan, "bound") == number(plan, "cost"));
  CHECK(number(plan, "gap") == 0);
  CHECK(number(plan, "gap_ratio") == 0);
  CHECK(number(plan, "price") == 0.05);
  CHECK(plan.members().size() == 8);
}

TEST_CASE("a forest under a budget is answered with a certificate") {
  const json::Value plan = solved(library(R"("budget_bytes":15000)"));
  CHECK(nodes(plan, "states") == Nodes{0, 1});
  CHECK(nodes(plan, "kept_edges") == Nodes{0, 1});
  CHECK(number(plan, "bytes") == 15'000);
  CHECK(number(plan, "cost") == Approx(0.5 * 50 + 4));
  CHECK(number(plan, "bound") == Approx(number(plan, "cost")));
  const json::Value tight = solved(library(R"("budget_bytes":14999)"));
  CHECK(nodes(tight, "states") == Nodes{0});
  CHECK(number(tight, "gap") > 0);
  CHECK(number(tight, "gap") == Approx(number(tight, "cost") - number(tight, "bound")));
  CHECK(number(tight, "gap_ratio") == Approx(number(tight, "gap") / number(tight, "cost")));
  const json::Value all = solved(library(R"("budget_bytes":1e9)"));
  CHECK(nodes(all, "states") == Nodes{0, 1, 3});
  CHECK(number(all, "price") == 0);
}

TEST_CASE("pins, cost and fractions of bytes are read") {
  const json::Value pinned = solved(
      R"({"nodes":[{"parent":1,"depth":9,"demand":0,"pinned":true},{"parent":-1,"depth":4,"demand":1}],
          "state_bytes":0.5,"kv_bytes_per_token":0.25,"cost":{"a":0,"b":2},"price":1e9})");
  CHECK(nodes(pinned, "states") == Nodes{0});
  CHECK(nodes(pinned, "kept_edges") == Nodes{0, 1});
  CHECK(number(pinned, "bytes") == 2.75);
  CHECK(number(pinned, "cost") == 12);
  CHECK(number(solved(R"({"nodes":[],"state_bytes":1,"kv_bytes_per_token":0,"price":0})"),
               "cost") == 0);
}

TEST_CASE("the answer to a forest file is the definition's optimum on random forests") {
  std::mt19937_64 rng(61);
  for (int round = 0; round < 200; ++round) {
    oracle::ForestShape shape;
    shape.nodes = 8;
    shape.back = 0.3;
    std::vector<std::int32_t> moved;
    const auto forest = oracle::relisted(oracle::random_forest(rng, shape, 7, 3), rng, moved);
    std::string text;
    for (const DemandNode& n : forest) {
      text += std::string(text.empty() ? "" : ",") + "{\"parent\":" + std::to_string(n.parent) +
              ",\"depth\":" + std::to_string(n.depth) + ",\"demand\":" + std::to_string(n.demand) +
              ",\"can_hold\":" + (n.can_hold ? "true" : "false") +
              ",\"pinned\":" + (n.pinned ? "true" : "false") + "}";
    }
    const double price = 0.1 * static_cast<double>(1 + rng() % 30);
    const json::Value plan =
        solved("{\"state_bytes\":7,\"kv_bytes_per_token\":3,\"cost\":{\"b\":0.5},\"price\":" +
               std::to_string(price) + ",\"nodes\":[" + text + "]}");
    const double best = oracle::best_lagrangian(oracle::every_plan(forest, {1, 0.5}), price);
    REQUIRE(number(plan, "cost") + price * number(plan, "bytes") == Approx(best).epsilon(1e-9));
  }
}

TEST_CASE("a bad forest file is refused with the field and what was expected") {
  const std::string rest = R"("state_bytes":1,"kv_bytes_per_token":1,"price":1})";
  const std::string good = R"({"nodes":[{"parent":-1,"depth":5,"demand":1}],)";
  const auto node = [&](const std::string& n) { return "{\"nodes\":[" + n + "]," + rest; };
  const std::string first = R"({"parent":-1,"depth":5,"demand":1},)";
  const struct {
    std::string text;
    const char* param;
    const char* message;
  } cases[] = {
      {"{\"nodes\":7," + rest, "nodes", "an array of nodes, got 7"},
      {node("3"), "nodes[0]", "an object"},
      {node("{}"), "nodes[0].parent", "missing"},
      {node(R"({"parent":-1,"demand":1})"), "nodes[0].depth", "missing"},
      {node(R"({"parent":-1,"depth":5})"), "nodes[0].demand", "missing"},
      {node(R"({"parent":-1,"depth":5,"demand":1,"weight":2})"), "nodes[0].weight", "only"},
      {node(first + R"({"parent":2,"depth":9,"demand":1})"), "nodes[1].parent", "from -1 to 1"},
      {node(first + R"({"parent":0.5,"depth":9,"demand":1})"), "nodes[1].parent", "integer"},
      {node(first + R"({"parent":0,"depth":5,"demand":1})"), "nodes[1].depth", "more tokens than"},
      {node(first + R"({"parent":1,"depth":9,"demand":1})"), "nodes[1].depth", "more tokens than"},
      {node(R"({"parent":-1,"depth":0,"demand":1})"), "nodes[0].depth", "from 1"},
      {node(R"({"parent":-1,"depth":1e3,"demand":1})"), "nodes[0].depth", "integer"},
      {node(R"({"parent":-1,"depth":1000000000001,"demand":1})"), "nodes[0].depth", "to 1000000"},
      {node(R"({"parent":-1,"depth":5,"demand":-1})"), "nodes[0].demand", "at least 0"},
      {node(R"({"parent":-1,"depth":5,"demand":1e999})"), "nodes[0].demand", "finite"},
      {node(R"({"parent":-1,"depth":5,"demand":1e250})"), "nodes", "1e250"},
      {node(R"({"parent":-1,"depth":5,"demand":1,"can_hold":1})"), "nodes[0].can_hold", "true or"},
      {node(R"({"parent":-1,"depth":5,"demand":1,"can_hold":false,"pinned":true})"),
       "nodes[0].pinned", "can_hold"},
      {good + R"("kv_bytes_per_token":1,"price":1})", "state_bytes", "missing"},
      {good + R"("state_bytes":1,"price":1})", "kv_bytes_per_token", "missing"},
      {good + R"("state_bytes":-1,"kv_bytes_per_token":1,"price":1})", "state_bytes", "least 0"},
      {good + R"("state_bytes":1e16,"kv_bytes_per_token":1,"price":1})", "state_bytes", "at most"},
      {good + R"("state_bytes":1,"kv_bytes_per_token":9e15,"price":1})", "nodes", "2^53"},
      {good + R"("state_bytes":1,"kv_bytes_per_token":1})", "budget_bytes", "exactly one"},
      {good + R"("budget_bytes":1,)" + rest, "price", "exactly one"},
      {good + R"("state_bytes":1,"kv_bytes_per_token":1,"price":-1})", "price", "at least 0"},
      {good + R"("state_bytes":1,"kv_bytes_per_token":1,"price":1e300})", "price", "1e250"},
      {good + R"("state_bytes":1,"kv_bytes_per_token":1,"price":"1"})", "price", "a string"},
      {good + R"("budget":1,)" + rest, "budget", "only the keys nodes"},
      {good + R"("cost":{"a":0,"b":0},)" + rest, "cost", "above 0"},
      {R"({"nodes":[{"parent":-1,"depth":5,"demand":1,"pinned":true}],"state_bytes":10,
           "kv_bytes_per_token":1,"budget_bytes":14})",
       "budget_bytes", "take 15 bytes"},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    const auto answer = solve_plan_json(c.text);
    REQUIRE_FALSE(answer.ok());
    INFO(answer.error().message);
    CHECK(answer.error().code == ErrorCode::bad_request);
    CHECK(answer.error().param == c.param);
    CHECK(answer.error().message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("a forest file may be a hundred thousand nodes deep, and listed from its leaf") {
  constexpr int kNodes = 100'000;
  std::string text = R"({"state_bytes":100,"kv_bytes_per_token":1,"budget_bytes":200000,"nodes":[)";
  for (int i = 0; i < kNodes; ++i) {
    text += (i > 0 ? ",{\"parent\":" : "{\"parent\":") +
            std::to_string(i + 1 < kNodes ? i + 1 : -1) +
            ",\"depth\":" + std::to_string(kNodes - i) + ",\"demand\":1}";
  }
  const json::Value plan = solved(text + "]}");
  CHECK(number(plan, "bytes") <= 200'000);
  CHECK(number(plan, "gap_ratio") < 1e-3);
  CHECK(nodes(plan, "states").size() > 900);
}
