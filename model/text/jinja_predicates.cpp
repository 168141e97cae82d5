// SPDX-License-Identifier: Apache-2.0
// The tests behind `is`.
#include <algorithm>

#include "model/text/jinja_interp.hpp"

namespace cairn::text::jinja {
namespace {

struct Alias {
  std::string_view name;
  std::string_view op;
};
constexpr Alias kComparisons[] = {
    {"==", "=="},      {"eq", "=="}, {"equalto", "=="}, {"!=", "!="},
    {"ne", "!="},      {">", ">"},   {"gt", ">"},       {"greaterthan", ">"},
    {">=", ">="},      {"ge", ">="}, {"<", "<"},        {"lt", "<"},
    {"lessthan", "<"}, {"<=", "<="}, {"le", "<="},      {"in", "in"}};

constexpr std::string_view kSimple[] = {
    "defined", "undefined", "none",        "boolean",  "true",     "false",    "integer", "float",
    "number",  "string",    "mapping",     "sequence", "iterable", "callable", "odd",     "even",
    "lower",   "upper",     "divisibleby", "sameas",   "filter",   "test"};

bool divisible(Heap& heap, const Value& v, const Value& by, std::int64_t remainder) {
  return equal(heap, binary(heap, "%", v, by), Value::integer(remainder));
}

bool same_object(Heap& heap, const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.has_object() || b.has_object()) return a.identity() == b.identity();
  return equal(heap, a, b);
}

// What has a length and an order, or, as for dicts and strings, passes for it.
bool is_sequence(const Value& v) {
  return is_iterable(v) && !v.is(Kind::view) && !v.is(Kind::iterator);
}

bool simple_test(Interp& in, std::string_view name, const Value& v) {
  if (name == "defined") return !v.is(Kind::undefined);
  if (name == "undefined") return v.is(Kind::undefined);
  if (name == "none") return v.is(Kind::none);
  if (name == "boolean") return v.is(Kind::boolean);
  if (name == "true") return v.is(Kind::boolean) && v.as_bool();
  if (name == "false") return v.is(Kind::boolean) && !v.as_bool();
  if (name == "integer") return v.is(Kind::integer) || v.is(Kind::big_integer);
  if (name == "float") return v.is(Kind::real);
  if (name == "number") return is_number(v) || v.is(Kind::big_integer);
  if (name == "string") return v.is(Kind::string);
  if (name == "mapping") return v.is(Kind::dict);
  if (name == "sequence") return is_sequence(v);
  if (name == "iterable") return is_iterable(v) || v.is(Kind::loop);
  if (name == "callable") return v.is(Kind::callable) || v.is(Kind::undefined);
  if (name == "odd") return divisible(in.heap(), v, Value::integer(2), 1);
  if (name == "even") return divisible(in.heap(), v, Value::integer(2), 0);
  if (name == "filter") return v.is(Kind::string) && filter_exists(v.view());
  if (name == "test") return v.is(Kind::string) && test_exists(v.view());
  if (name == "lower") return is_lower(in.text(v).view());
  return is_upper(in.text(v).view());
}

}  // namespace

bool test_exists(std::string_view name) {
  return std::find(std::begin(kSimple), std::end(kSimple), name) != std::end(kSimple) ||
         std::any_of(std::begin(kComparisons), std::end(kComparisons),
                     [&](const Alias& a) { return a.name == name; });
}

bool Interp::test(std::string_view name, const Value& input, const Args& args) {
  heap_.step();
  if (!test_exists(name)) fail("the test '" + std::string(name) + "' is not supported");
  for (const Alias& alias : kComparisons) {
    if (alias.name != name) continue;
    const Bound bound(name, args, {"other"}, 1);
    return jinja::compare(heap_, alias.op, input, bound.at(0));
  }
  if (name == "divisibleby" || name == "sameas") {
    const Bound bound(name, args, {"other"}, 1);
    return name == "sameas" ? same_object(heap_, input, bound.at(0))
                            : divisible(heap_, input, bound.at(0), 0);
  }
  const Bound bound(name, args, {});
  return simple_test(*this, name, input);
}

}  // namespace cairn::text::jinja
