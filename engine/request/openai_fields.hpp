// SPDX-License-Identifier: Apache-2.0
// Reading typed members of a JSON object; the first wrong type is remembered and named.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace cairn::engine::openai {

Error bad_field(std::string param, std::string message);
Error unsupported_field(std::string param, std::string message);

/// null counts as absent everywhere. After any getter, error() tells whether something was wrong so
/// far.
class Fields {
 public:
  /// `prefix` goes before names in messages ("stream_options.").
  explicit Fields(const json::Value& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  const json::Value* get(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int32_t> integer(std::string_view name);
  std::optional<float> real(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  const json::Value* object(std::string_view name);
  const json::Value* array(std::string_view name);
  std::optional<std::uint64_t> seed(std::string_view name);
  /// A string or an array of strings.
  std::vector<std::string> strings(std::string_view name);
  std::vector<std::int32_t> integers(std::string_view name);
  /// Refuses members that are set to anything but null, false or something empty.
  void refuse(std::initializer_list<std::string_view> names, std::string_view why);

  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  const std::optional<Error>& error() const { return error_; }
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  void wrong_type(std::string_view name, const json::Value& value, std::string_view expected);
  const json::Value& object_;
  std::string prefix_;
  std::optional<Error> error_;
};

/// "a string", "an object", ... for messages.
std::string_view kind_name(const json::Value& value);
/// The field holds a value of another kind than `expected` ("an object").
Error wrong_kind(const std::string& field, const json::Value& value, std::string_view expected);

/// An integral number that fits, or nothing.
std::optional<std::int32_t> to_int32(const json::Value& value);

}  // namespace cairn::engine::openai
