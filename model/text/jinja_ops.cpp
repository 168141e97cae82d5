// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_ops.hpp"

#include <cmath>

namespace cairn::text::jinja {
namespace {

[[noreturn]] void bad_operands(std::string_view op, const Value& left, const Value& right) {
  if (left.is(Kind::undefined)) fail_undefined(left);
  if (right.is(Kind::undefined)) fail_undefined(right);
  if (left.is(Kind::big_integer) || right.is(Kind::big_integer)) {
    fail("integers of more than 64 bits cannot be computed with");
  }
  fail("unsupported operand types for '" + std::string(op) + "': '" + kind_name(left.kind()) +
       "' and '" + kind_name(right.kind()) + "'");
}

[[noreturn]] void overflow(std::string_view op) {
  fail("the result of '" + std::string(op) + "' does not fit 64 bits");
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow("**");
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow("**");
  }
  return result;
}

// Division rounds down and the remainder has the divisor's sign, as in Python.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) overflow("//");
    return result;
  }
  const std::int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("modulo by zero");
  if (b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double floor_modulo(double a, double b) {
  if (b == 0) fail("float modulo by zero");
  double r = std::fmod(a, b);
  if (r != 0) {
    if ((r < 0) != (b < 0)) r += b;
  } else {
    r = std::copysign(0.0, b);
  }
  return r;
}

double floor_divide(double a, double b) {
  if (b == 0) fail("float floor division by zero");
  double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return std::copysign(0.0, a / b);
  const double down = std::floor(q);
  return q - down > 0.5 ? down + 1 : down;
}

Value integer_math(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) overflow(op);
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) overflow(op);
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) overflow(op);
  } else if (op == "//") {
    result = floor_divide(a, b);
  } else if (op == "%") {
    result = floor_modulo(a, b);
  } else if (op == "/") {
    if (b == 0) fail("division by zero");
    return Value::real(static_cast<double>(a) / static_cast<double>(b));
  } else {
    if (b >= 0) return Value::integer(power(a, b));
    if (a == 0) fail("0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  return Value::integer(result);
}

Value real_math(std::string_view op, double a, double b) {
  if (op == "+") return Value::real(a + b);
  if (op == "-") return Value::real(a - b);
  if (op == "*") return Value::real(a * b);
  if (op == "//") return Value::real(floor_divide(a, b));
  if (op == "%") return Value::real(floor_modulo(a, b));
  if (op == "/") {
    if (b == 0) fail("float division by zero");
    return Value::real(a / b);
  }
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  if (a < 0 && b != std::floor(b)) fail("complex results of '**' are not supported");
  const double result = std::pow(a, b);
  if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) fail("result of '**' is too large");
  return Value::real(result);
}

Value repeat_items(Heap& heap, const Value& list, std::int64_t count) {
  std::vector<Value> out;
  const auto& items = list.items();
  if (count > 0 && !items.empty()) {
    std::size_t total = 0;
    if (__builtin_mul_overflow(items.size(), static_cast<std::size_t>(count), &total))
      total = SIZE_MAX;
    heap.check_items(total);
    out.reserve(total);
    for (std::int64_t k = 0; k < count; ++k) out.insert(out.end(), items.begin(), items.end());
  }
  return heap.list(std::move(out), list.kind());
}

bool is_list(const Value& v) { return v.is(Kind::list) || v.is(Kind::tuple); }

}  // namespace

bool is_integer(const Value& v) { return v.is(Kind::integer) || v.is(Kind::boolean); }
bool is_number(const Value& v) { return is_integer(v) || v.is(Kind::real); }

double to_real(const Value& v) {
  return v.is(Kind::real) ? v.as_real() : static_cast<double>(v.as_int());
}

Value negate(const Value& v) {
  if (v.is(Kind::real)) return Value::real(-v.as_real());
  if (is_integer(v)) return integer_math("-", 0, v.as_int());
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (v.is(Kind::big_integer)) bad_operands("-", v, v);
  fail(std::string("bad operand type for unary -: '") + kind_name(v.kind()) + "'");
}

Value binary(Heap& heap, std::string_view op, const Value& left, const Value& right) {
  if (is_integer(left) && is_integer(right)) return integer_math(op, left.as_int(), right.as_int());
  if (is_number(left) && is_number(right)) return real_math(op, to_real(left), to_real(right));
  if (op == "+") {
    if (left.is(Kind::string) && right.is(Kind::string)) {
      heap.check_string(left.text().size() + right.text().size());
      OriginText out = left.text();
      out.append(right.text());
      return heap.text(std::move(out));
    }
    if (is_list(left) && left.kind() == right.kind()) {
      heap.check_items(left.items().size() + right.items().size());
      std::vector<Value> out = left.items();
      out.insert(out.end(), right.items().begin(), right.items().end());
      return heap.list(std::move(out), left.kind());
    }
  } else if (op == "*") {
    const Value& sequence = is_integer(left) ? right : left;
    const Value& count = is_integer(left) ? left : right;
    if (is_integer(count) && sequence.is(Kind::string)) {
      return heap.text(repeat(heap, sequence.text(), count.as_int()));
    }
    if (is_integer(count) && is_list(sequence)) return repeat_items(heap, sequence, count.as_int());
  } else if (op == "%" && left.is(Kind::string)) {
    return heap.text(format_percent(heap, left.text(), right));
  }
  bad_operands(op, left, right);
}

}  // namespace cairn::text::jinja
