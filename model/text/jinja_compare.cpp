// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "model/text/jinja_ops.hpp"

namespace cairn::text::jinja {
namespace {

bool is_list(const Value& v) { return v.is(Kind::list) || v.is(Kind::tuple); }

bool equal_dicts(Heap& heap, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(heap, entry.second, *other);
  });
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  if (a.count != b.count) return false;
  return a.count == 0 || (a.start == b.start && (a.count == 1 || a.step == b.step));
}

bool is_big(const Value& v) { return v.is(Kind::big_integer); }
bool is_any_number(const Value& v) { return is_number(v) || is_big(v); }

double as_real(const Value& v) {
  return is_big(v) ? json::Value::number(v.text().bytes()).as_double() : to_real(v);
}

// Digits without sign and leading zeros decide between integers of more than 64 bits.
int three_way_big(const std::string& a, const std::string& b) {
  const bool minus = a[0] == '-';
  if (minus != (b[0] == '-')) return minus ? -1 : 1;
  int order = a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
  order = order < 0 ? -1 : order > 0 ? 1 : 0;
  return minus ? -order : order;
}

// -1, 0 or 1; 64-bit integers are compared exactly where both are integers.
int three_way(const Value& left, const Value& right) {
  if (is_integer(left) && is_integer(right)) {
    return left.as_int() < right.as_int() ? -1 : left.as_int() > right.as_int() ? 1 : 0;
  }
  if (is_big(left) && is_big(right)) {
    return three_way_big(left.text().bytes(), right.text().bytes());
  }
  const double a = as_real(left);
  const double b = as_real(right);
  return a < b ? -1 : a > b ? 1 : 0;
}

}  // namespace

bool truth(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return v.as_int() != 0;
    case Kind::real:
      return v.as_real() != 0;
    case Kind::iterator:
    case Kind::big_integer:
      return true;
    default:
      return length_of(v).value_or(1) != 0;
  }
}

bool equal(Heap& heap, const Value& left, const Value& right) {
  heap.step();
  if (is_number(left) && is_number(right)) {
    if (left.is(Kind::real) || right.is(Kind::real)) return to_real(left) == to_real(right);
    return left.as_int() == right.as_int();
  }
  if ((is_big(left) && right.is(Kind::real)) || (is_big(right) && left.is(Kind::real))) {
    return as_real(left) == as_real(right);
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
    case Kind::big_integer:
      return left.view() == right.view();
    case Kind::list:
    case Kind::tuple:
      return left.identity() == right.identity() ||
             std::equal(left.items().begin(), left.items().end(), right.items().begin(),
                        right.items().end(),
                        [&](const Value& a, const Value& b) { return equal(heap, a, b); });
    case Kind::dict:
      return left.identity() == right.identity() || equal_dicts(heap, left.dict(), right.dict());
    case Kind::range:
      return equal_ranges(left.as<RangeObject>(), right.as<RangeObject>());
    default:
      return left.identity() == right.identity();
  }
}

bool less(Heap& heap, const Value& left, const Value& right) {
  heap.step();
  if (is_any_number(left) && is_any_number(right)) return three_way(left, right) < 0;
  if (left.is(Kind::string) && right.is(Kind::string)) return left.view() < right.view();
  if (is_list(left) && left.kind() == right.kind()) {
    const auto& a = left.items();
    const auto& b = right.items();
    const std::size_t n = std::min(a.size(), b.size());
    for (std::size_t i = 0; i < n; ++i) {
      if (!equal(heap, a[i], b[i])) return less(heap, a[i], b[i]);
    }
    return a.size() < b.size();
  }
  if (left.is(Kind::undefined)) fail_undefined(left);
  if (right.is(Kind::undefined)) fail_undefined(right);
  fail(std::string("values of types '") + kind_name(left.kind()) + "' and '" +
       kind_name(right.kind()) + "' have no order");
}

bool compare(Heap& heap, std::string_view op, const Value& left, const Value& right) {
  if (op == "==") return equal(heap, left, right);
  if (op == "!=") return !equal(heap, left, right);
  if (op == "in") return contains(heap, right, left);
  if (op == "not in") return !contains(heap, right, left);
  if (is_number(left) && is_number(right) &&
      (to_real(left) != to_real(left) || to_real(right) != to_real(right))) {
    return false;  // not a number has no order
  }
  if (op == "<") return less(heap, left, right);
  if (op == ">") return less(heap, right, left);
  if (op == "<=") return !less(heap, right, left);
  return !less(heap, left, right);
}

bool contains(Heap& heap, const Value& container, const Value& wanted) {
  switch (container.kind()) {
    case Kind::string:
      if (wanted.is(Kind::undefined)) fail_undefined(wanted);
      if (!wanted.is(Kind::string)) {
        fail(std::string("'in <string>' needs a string on the left, not ") +
             kind_name(wanted.kind()));
      }
      heap.step(container.text().size() / 64);
      return container.view().find(wanted.view()) != std::string_view::npos;
    case Kind::dict:
      return container.dict().find(wanted) != nullptr;
    case Kind::list:
    case Kind::tuple:
      heap.step(container.items().size() / 8);
      return std::any_of(container.items().begin(), container.items().end(),
                         [&](const Value& v) { return equal(heap, v, wanted); });
    case Kind::range: {
      if (!is_number(wanted)) return false;
      const auto& range = container.as<RangeObject>();
      const double at =
          (to_real(wanted) - static_cast<double>(range.start)) / static_cast<double>(range.step);
      return at >= 0 && at < static_cast<double>(range.count) &&
             at == static_cast<double>(static_cast<std::int64_t>(at));
    }
    default:
      break;
  }
  if (!is_iterable(container)) {
    fail(std::string("argument of type '") + kind_name(container.kind()) + "' is not iterable");
  }
  const std::vector<Value> items = iterate(heap, container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& v) { return equal(heap, v, wanted); });
}

}  // namespace cairn::text::jinja
