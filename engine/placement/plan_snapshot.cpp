// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/plan_snapshot.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/json.hpp"
#include "base/json_text.hpp"
#include "engine/placement/plan_json.hpp"

namespace cairn::engine {
namespace {

const char* to_string(Claim claim) {
  switch (claim) {
    case Claim::none:
      return "none";
    case Claim::pending:
      return "pending";
    case Claim::stored:
      return "stored";
  }
  return "none";
}

using plan_json::Bad;

class Reader {
 public:
  PlanSnapshot read(const json::Value& document) {
    if (!document.is(json::Kind::object)) throw Bad{"", "an object"};
    PlanSnapshot out;
    const json::Value* policy = document.find("policy");
    if (!policy || !policy->is(json::Kind::string)) throw Bad{"policy", "a string"};
    out.policy = policy->text();
    out.bytes = whole(document, "bytes");
    out.budget = whole(document, "budget");
    out.price = number(document, "price");
    const json::Value* nodes = document.find("nodes");
    if (!nodes || !nodes->is(json::Kind::array)) throw Bad{"nodes", "an array"};
    out.nodes.reserve(nodes->items().size());
    for (const json::Value& node : nodes->items()) {
      prefix_ = "nodes[" + std::to_string(out.nodes.size()) + "]";
      if (!node.is(json::Kind::object)) throw Bad{prefix_, "an object"};
      prefix_ += '.';
      out.nodes.push_back(read_node(node, out.nodes));
    }
    return out;
  }

 private:
  PlanSnapshot::Node read_node(const json::Value& v,
                               const std::vector<PlanSnapshot::Node>& before) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    PlanSnapshot::Node node;
    node.parent = static_cast<std::int32_t>(integer(v, "parent", -1, std::ssize(before) - 1));
    const std::int64_t above =
        node.parent < 0 ? 0 : before[static_cast<std::size_t>(node.parent)].depth;
    node.depth = static_cast<std::int32_t>(integer(v, "depth", above + 1, kMost));
    node.claim = named(v, "claim", std::array{Claim::none, Claim::pending, Claim::stored},
                       [](Claim c) { return to_string(c); });
    if (v.find("kind") && !v.find("kind")->is(json::Kind::null)) {
      std::array<StateKind, kStateKinds> kinds{};
      for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = static_cast<StateKind>(i);
      node.kind = named(v, "kind", kinds, [](StateKind k) { return engine::to_string(k); });
    }
    if (v.find("rate")) node.rate = number(v, "rate");
    if (v.find("loss_per_byte")) node.loss_per_byte = number(v, "loss_per_byte");
    if (v.find("bytes")) node.bytes = whole(v, "bytes");
    return node;
  }

  std::int64_t integer(const json::Value& object, const char* field, std::int64_t low,
                       std::int64_t high) const {
    const json::Value* v = object.find(field);
    if (v && v->is_integer() && v->as_int() >= low && v->as_int() <= high) return v->as_int();
    throw Bad{prefix_ + field,
              "an integer from " + std::to_string(low) + " to " + std::to_string(high)};
  }
  std::uint64_t whole(const json::Value& object, const char* field) const {
    return static_cast<std::uint64_t>(
        integer(object, field, 0, std::numeric_limits<std::int64_t>::max()));
  }
  double number(const json::Value& object, const char* field) const {
    const json::Value* v = object.find(field);
    if (v && v->is(json::Kind::number) && v->as_double() >= 0 && std::isfinite(v->as_double())) {
      return v->as_double();
    }
    throw Bad{prefix_ + field, "a number of at least 0"};
  }
  template <class T, std::size_t n, class Name>
  T named(const json::Value& object, const char* field, const std::array<T, n>& all,
          const Name& name) const {
    const json::Value* v = object.find(field);
    std::string list;
    for (const T value : all) {
      if (v && v->is(json::Kind::string) && v->text() == name(value)) return value;
      list += (list.empty() ? "" : ", ") + std::string(name(value));
    }
    throw Bad{prefix_ + field, "one of " + list};
  }

  std::string prefix_;
};

}  // namespace

PlanSnapshot snapshot_of(const PlanTree& tree, const std::function<double(PlanNode)>& rate,
                         const std::function<double(PlanNode)>& loss_per_byte) {
  PlanSnapshot out;
  out.bytes = tree.bytes();
  std::vector<PlanNode> order;
  tree.top_down(order);
  std::vector<std::int32_t> index(tree.slots(), -1);
  out.nodes.reserve(order.size());
  for (const PlanNode n : order) {
    if (n == kPlanRoot) continue;
    index[n] = static_cast<std::int32_t>(out.nodes.size());
    const PlanTree::Node& from = tree[n];
    PlanSnapshot::Node& node = out.nodes.emplace_back();
    node.parent = index[from.parent];
    node.depth = from.depth;
    node.claim = from.claim;
    node.kind = from.kind;
    node.rate = rate(n);
    if (from.claim == Claim::none) continue;
    node.loss_per_byte = loss_per_byte(n);
    node.bytes = tree.exclusive_bytes(n);
  }
  return out;
}

std::string to_json(const PlanSnapshot& snapshot) {
  JsonWriter json;
  json.begin_object();
  json.key("policy").string(snapshot.policy);
  json.key("bytes").unsigned_integer(snapshot.bytes);
  json.key("budget").unsigned_integer(snapshot.budget);
  json.key("price").number(snapshot.price);
  json.key("nodes").begin_array();
  for (const PlanSnapshot::Node& node : snapshot.nodes) {
    json.begin_object();
    json.key("parent").integer(node.parent);
    json.key("depth").integer(node.depth);
    json.key("claim").string(to_string(node.claim));
    if (node.claim != Claim::none) {
      json.key("kind").string(engine::to_string(node.kind));
      json.key("loss_per_byte").number(node.loss_per_byte);
      json.key("bytes").unsigned_integer(node.bytes);
    }
    json.key("rate").number(node.rate);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

Result<PlanSnapshot> parse_plan_snapshot(std::string_view text) {
  const auto document = json::parse(text);
  if (!document) {
    return Error{ErrorCode::bad_request, "not a JSON document: " + document.error().message, ""};
  }
  try {
    return Reader().read(*document);
  } catch (const Bad& bad) {
    return plan_json::to_error(bad);
  }
}

}  // namespace cairn::engine
