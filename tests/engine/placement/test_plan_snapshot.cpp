// SPDX-License-Identifier: Apache-2.0
// Snapshots of a tree, and files that are none.
#include <random>

#include "base/json.hpp"
#include "engine/placement/plan_snapshot.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

PlanTree some_tree() {
  PlanTree tree({.state_bytes = 100, .kv_bytes_per_token = 2, .kv_block = 1});
  const PlanNode system = tree.add_leaf(kPlanRoot, 50);
  const PlanNode first = tree.add_leaf(system, 80);
  tree.add_leaf(system, 90);
  tree.claim(system, Claim::stored, StateKind::branch);
  tree.claim(first, Claim::pending, StateKind::prompt_end);
  return tree;
}

std::string refusal(const std::string& json) {
  const auto snapshot = parse_plan_snapshot(json);
  return snapshot ? "" : snapshot.error().message;
}

}  // namespace

TEST_CASE("A snapshot has the tree's shape, claims and bytes, and the policy's predictions") {
  const PlanTree tree = some_tree();
  const PlanSnapshot s = snapshot_of(
      tree, [&](PlanNode n) { return 0.01 * tree[n].depth; },
      [&](PlanNode n) { return 1.0 / tree[n].depth; });
  REQUIRE(s.nodes.size() == 3);
  CHECK(s.bytes == tree.bytes());
  for (const auto& node : s.nodes) {
    CHECK(node.rate == 0.01 * node.depth);
    if (node.depth == 50) {
      CHECK(node.parent == -1);
      CHECK(node.claim == Claim::stored);
      CHECK(node.kind == StateKind::branch);
      CHECK(node.bytes == 100);  // its KV is needed by the claim below
      CHECK(node.loss_per_byte == 0.02);
    } else {
      CHECK(s.nodes[static_cast<std::size_t>(node.parent)].depth == 50);
      CHECK(node.claim == (node.depth == 80 ? Claim::pending : Claim::none));
      CHECK(node.bytes == (node.depth == 80 ? 100 + 2 * 30 : 0));
    }
  }
}

TEST_CASE("A snapshot written and read is the same") {
  const PlanTree tree = some_tree();
  PlanSnapshot s = snapshot_of(
      tree, [](PlanNode) { return 0.1; }, [](PlanNode) { return 1e-12; });
  s.policy = "dp:4+branch";
  s.budget = 1'000'000'000'000;
  s.price = 3.5e-9;
  const auto back = parse_plan_snapshot(to_json(s));
  REQUIRE(back.ok());
  CHECK(to_json(*back) == to_json(s));
  CHECK(back->policy == s.policy);
  CHECK(back->budget == s.budget);
  CHECK(back->price == s.price);
  CHECK(back->nodes.size() == s.nodes.size());
}

TEST_CASE("A file that is no snapshot is refused with the field and what was expected") {
  const std::string head = R"({"policy": "p", "bytes": 1, "budget": 0, "price": 0, "nodes": [)";
  const std::string good = R"({"parent": -1, "depth": 5, "claim": "none"})";
  REQUIRE(refusal(head + good + "]}").empty());
  const auto node = [&](const std::string& fields) {
    return refusal(head + good + ",{" + fields + "}]}");
  };
  CHECK_THAT(refusal("{"), Catch::StartsWith("not a JSON document"));
  CHECK(refusal("[]") == "the document: expected an object");
  CHECK(refusal("{}") == "field 'policy': expected a string");
  CHECK_THAT(refusal(R"({"policy": "p", "bytes": -1})"), Catch::StartsWith("field 'bytes'"));
  CHECK(refusal(R"({"policy": "p", "bytes": 1, "budget": 0, "price": 0})") ==
        "field 'nodes': expected an array");
  CHECK_THAT(refusal(R"({"policy": "p", "bytes": 1, "budget": 0, "price": 1e999, "nodes": []})"),
             Catch::StartsWith("field 'price'"));
  CHECK(refusal(head + "7]}") == "field 'nodes[0]': expected an object");
  CHECK(node(R"("parent": 1, "depth": 6, "claim": "none")") ==
        "field 'nodes[1].parent': expected an integer from -1 to 0");
  CHECK_THAT(node(R"("parent": 0, "depth": 5, "claim": "none")"),
             Catch::StartsWith("field 'nodes[1].depth': expected an integer from 6"));
  CHECK(node(R"("parent": 0, "depth": 6, "claim": "held")") ==
        "field 'nodes[1].claim': expected one of none, pending, stored");
  CHECK_THAT(node(R"("parent": 0, "depth": 6, "claim": "stored", "kind": "x")"),
             Catch::StartsWith("field 'nodes[1].kind': expected one of branch"));
  CHECK_THAT(node(R"("parent": 0, "depth": 6, "claim": "none", "rate": -1)"),
             Catch::StartsWith("field 'nodes[1].rate'"));
}

TEST_CASE("Mutated snapshots are read or refused") {
  const PlanTree tree = some_tree();
  const std::string good = to_json(snapshot_of(
      tree, [](PlanNode) { return 0.5; }, [](PlanNode) { return 0.5; }));
  std::mt19937 rng(11);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (unsigned edits = 1 + rng() % 2; edits > 0; --edits) {
      text[rng() % text.size()] = static_cast<char>(' ' + rng() % 95);
    }
    const auto back = parse_plan_snapshot(text);
    if (!back) continue;
    ++accepted;
    for (std::size_t i = 0; i < back->nodes.size(); ++i) {
      REQUIRE(back->nodes[i].parent < static_cast<std::int32_t>(i));
    }
  }
  CHECK(accepted > 20);
}
