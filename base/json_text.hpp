// SPDX-License-Identifier: Apache-2.0
// Writing JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace cairn {

/// Appends a quoted string. Bytes that are not UTF-8 become U+FFFD, so the result always is.
void append_json_string(std::string& out, std::string_view text);

/// The value as compact JSON; numbers keep their source text, members their order.
std::string dump_json(const json::Value& value);

/// Builds one document front to back; puts the commas. Does not check that keys and ends are in
/// place.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& integer(std::int64_t value);
  JsonWriter& unsigned_integer(std::uint64_t value);
  /// Shortest text that reads back as the same number; null where JSON has none (infinities, NaN).
  JsonWriter& number(double value);
  JsonWriter& number(float value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  /// A value that is JSON already.
  JsonWriter& raw(std::string_view json);

  const std::string& text() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char c);
  JsonWriter& close(char c);
  void separate();
  template <class T>
  JsonWriter& digits(T value);
  std::string out_;
  bool comma_ = false;  // the next key or value follows a sibling
};

}  // namespace cairn
