// SPDX-License-Identifier: Apache-2.0
// A JSON reader that keeps what others lose: the order of keys and the text of numbers. For model
// files and chat templates, whose output must repeat them exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace cairn::json {

class Value;
using Array = std::vector<Value>;
using Member = std::pair<std::string, Value>;
using Object =
    std::vector<Member>;  // in source order; a repeated key keeps its first place, last value

enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

/// An immutable JSON value; copies share. Thread-safe to read.
class Value {
 public:
  Value() = default;
  static Value boolean(bool b);
  static Value number(std::string text);
  static Value string(std::string text);
  static Value array(Array items);
  /// Of repeated keys the first place and the last value are kept.
  static Value object(Object members);

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool as_bool() const { return flag_; }
  /// A string's content, or a number's text as it stood in the source.
  const std::string& text() const;
  bool is_integer() const;  // a number without fraction or exponent
  /// Number as double; 0 for other kinds.
  double as_double() const;
  /// Number as integer; truncates; saturates.
  std::int64_t as_int() const;
  const Array& items() const;     // empty for other kinds
  const Object& members() const;  // empty for other kinds
  /// The member's value or nullptr.
  const Value* find(std::string_view key) const;

 private:
  Kind kind_ = Kind::null;
  bool flag_ = false;
  std::shared_ptr<const std::string> text_;
  std::shared_ptr<const Array> items_;
  std::shared_ptr<const Object> members_;
  // Members in order of their keys, where there are enough to pay for a binary search; else null.
  std::shared_ptr<const std::vector<std::uint32_t>> by_key_;
};

/// Parses one document (UTF-8 checked, nesting at most `max_depth`). The error says line and column
/// and what was expected.
Result<Value> parse(std::string_view text, int max_depth = 128);

/// True when `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool valid_utf8(std::string_view text);

}  // namespace cairn::json
