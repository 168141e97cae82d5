// SPDX-License-Identifier: Apache-2.0
#include "engine/request/openai_fields.hpp"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/quote.hpp"

namespace cairn::engine::openai {

using json::Kind;

Error bad_field(std::string param, std::string message) {
  return {ErrorCode::bad_request, std::move(message), std::move(param)};
}

Error unsupported_field(std::string param, std::string message) {
  return {ErrorCode::unsupported, std::move(message), std::move(param)};
}

std::string_view kind_name(const json::Value& value) {
  switch (value.kind()) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "a boolean";
    case Kind::number:
      return "a number";
    case Kind::string:
      return "a string";
    case Kind::array:
      return "an array";
    case Kind::object:
      return "an object";
  }
  return "something else";
}

Error wrong_kind(const std::string& field, const json::Value& value, std::string_view expected) {
  return bad_field(field, field + " must be " + std::string(expected) + ", not " +
                              std::string(kind_name(value)) + ".");
}

std::optional<std::int32_t> to_int32(const json::Value& value) {
  if (!value.is(Kind::number)) return std::nullopt;
  const double d = value.as_double();
  if (std::trunc(d) != d || std::abs(d) > std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  return static_cast<std::int32_t>(d);
}

const json::Value* Fields::get(std::string_view name) const {
  const json::Value* value = object_.find(name);
  return value && !value->is(Kind::null) ? value : nullptr;
}

void Fields::wrong_type(std::string_view name, const json::Value& value,
                        std::string_view expected) {
  fail(wrong_kind(full(name), value, expected));
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const auto* value = get(name);
  if (!value) return std::nullopt;
  if (value->is(Kind::boolean)) return value->as_bool();
  wrong_type(name, *value, "a boolean");
  return std::nullopt;
}

std::optional<std::int32_t> Fields::integer(std::string_view name) {
  const auto* value = get(name);
  if (!value) return std::nullopt;
  if (!value->is(Kind::number)) {
    wrong_type(name, *value, "an integer");
    return std::nullopt;
  }
  const auto number = to_int32(*value);
  if (!number)
    fail(bad_field(full(name), full(name) + " must be an integer below 2^31, not " +
                                   shortened(value->text()) + "."));
  return number;
}

std::optional<float> Fields::real(std::string_view name) {
  const auto* value = get(name);
  if (!value) return std::nullopt;
  if (value->is(Kind::number)) return static_cast<float>(value->as_double());
  wrong_type(name, *value, "a number");
  return std::nullopt;
}

std::optional<std::string> Fields::string(std::string_view name) {
  const auto* value = get(name);
  if (!value) return std::nullopt;
  if (value->is(Kind::string)) return value->text();
  wrong_type(name, *value, "a string");
  return std::nullopt;
}

const json::Value* Fields::object(std::string_view name) {
  const auto* value = get(name);
  if (!value || value->is(Kind::object)) return value;
  wrong_type(name, *value, "an object");
  return nullptr;
}

const json::Value* Fields::array(std::string_view name) {
  const auto* value = get(name);
  if (!value || value->is(Kind::array)) return value;
  wrong_type(name, *value, "an array");
  return nullptr;
}

std::optional<std::uint64_t> Fields::seed(std::string_view name) {
  const auto* value = get(name);
  if (!value) return std::nullopt;
  if (value->is(Kind::number)) {
    const std::string& text = value->text();
    const char* end = text.data() + text.size();
    std::uint64_t positive = 0;
    if (const auto r = std::from_chars(text.data(), end, positive);
        r.ec == std::errc{} && r.ptr == end)
      return positive;
    std::int64_t any = 0;  // a negative seed is as good as any other
    if (const auto r = std::from_chars(text.data(), end, any); r.ec == std::errc{} && r.ptr == end)
      return static_cast<std::uint64_t>(any);
  }
  fail(bad_field(full(name), full(name) + " must be an integer of at most 64 bits."));
  return std::nullopt;
}

std::vector<std::string> Fields::strings(std::string_view name) {
  const auto* value = get(name);
  if (!value) return {};
  if (value->is(Kind::string)) return {value->text()};
  std::vector<std::string> all;
  for (const auto& item : value->items()) {
    if (!item.is(Kind::string)) {
      wrong_type(name, item, "a string or an array of strings");
      return {};
    }
    all.push_back(item.text());
  }
  if (!value->is(Kind::array)) wrong_type(name, *value, "a string or an array of strings");
  return all;
}

std::vector<std::int32_t> Fields::integers(std::string_view name) {
  const auto* value = array(name);
  if (!value) return {};
  std::vector<std::int32_t> all;
  all.reserve(value->items().size());
  for (const auto& item : value->items()) {
    const auto id = to_int32(item);
    if (!id) {
      fail(bad_field(full(name), full(name) + " must hold integers only."));
      return {};
    }
    all.push_back(*id);
  }
  return all;
}

void Fields::refuse(std::initializer_list<std::string_view> names, std::string_view why) {
  for (const auto name : names) {
    const auto* value = get(name);
    if (!value) continue;
    const bool empty = (value->is(Kind::boolean) && !value->as_bool()) ||
                       (value->is(Kind::string) && value->text().empty()) ||
                       (value->is(Kind::array) && value->items().empty()) ||
                       (value->is(Kind::object) && value->members().empty());
    if (!empty)
      fail(unsupported_field(full(name),
                             full(name) + " is not supported: " + std::string(why) + "."));
  }
}

}  // namespace cairn::engine::openai
