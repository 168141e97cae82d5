// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

namespace cairn::json {
namespace {

const std::string kNoText;
const Array kNoItems;
const Object kNoMembers;
constexpr std::size_t kIndexFrom = 8;  // members from which a lookup table pays

std::vector<std::uint32_t> sorted_by_key(const Object& members) {
  std::vector<std::uint32_t> order(members.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int c = members[a].first.compare(members[b].first);
    return c != 0 ? c < 0 : a < b;
  });
  return order;
}

// A repeated key gives its last value to its first place. Returns whether there was one.
bool drop_repeats(Object& members, const std::vector<std::uint32_t>& order) {
  std::vector<bool> gone(members.size());
  bool any = false;
  for (std::size_t first = 0, i = 1; i < order.size(); ++i) {
    if (members[order[i]].first != members[order[first]].first) {
      first = i;
      continue;
    }
    members[order[first]].second = members[order[i]].second;
    gone[order[i]] = any = true;
  }
  if (!any) return false;
  Object kept;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(members[i]));
  }
  members = std::move(kept);
  return true;
}

void append_utf8(std::string& out, std::uint32_t cp) {
  if (cp < 0x80) {
    out += static_cast<char>(cp);
  } else if (cp < 0x800) {
    out += static_cast<char>(0xC0 | (cp >> 6));
    out += static_cast<char>(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    out += static_cast<char>(0xE0 | (cp >> 12));
    out += static_cast<char>(0x80 | ((cp >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (cp & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (cp >> 18));
    out += static_cast<char>(0x80 | ((cp >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((cp >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (cp & 0x3F));
  }
}

// Thrown inside the parser only; parse() turns it into an Error.
struct Bad {
  std::size_t at;
  const char* expected;
};

class Parser {
 public:
  Parser(std::string_view text, int max_depth) : text_(text), max_depth_(max_depth) {}

  Value document() {
    Value v = value(0);
    blanks();
    if (at_ != text_.size()) throw Bad{at_, "the end of the document"};
    return v;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0') ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void expect(char c, const char* what) {
    if (peek() != c || at_ >= text_.size()) throw Bad{at_, what};
    ++at_;
  }
  void word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) throw Bad{at_, "a value"};
    at_ += w.size();
  }

  Value value(int depth) {
    if (depth > max_depth_) throw Bad{at_, "less deep nesting"};
    blanks();
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return Value::string(string());
      case 't':
        word("true");
        return Value::boolean(true);
      case 'f':
        word("false");
        return Value::boolean(false);
      case 'n':
        word("null");
        return {};
      default:
        return number();
    }
  }

  void digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    if (at_ == start) throw Bad{at_, start < text_.size() ? "a value" : "a value, not the end"};
  }

  Value number() {
    const std::size_t start = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      digits();
    }
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    return Value::number(std::string(text_.substr(start, at_ - start)));
  }

  std::uint32_t hex4() {
    if (at_ + 4 > text_.size()) throw Bad{at_, "four hexadecimal digits"};
    std::uint32_t cp = 0;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, cp, 16);
    if (ec != std::errc{} || end != text_.data() + at_ + 4) {
      throw Bad{at_, "four hexadecimal digits"};
    }
    at_ += 4;
    return cp;
  }

  // A lone surrogate has no UTF-8 form: it is refused rather than passed on broken.
  std::uint32_t escaped_code_point() {
    const std::uint32_t high = hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || text_.substr(at_, 2) != "\\u") throw Bad{at_, "a surrogate pair"};
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) throw Bad{at_, "a surrogate pair"};
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  void escape(std::string& out) {
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const char c = peek();
    ++at_;
    if (c == 'u') {
      append_utf8(out, escaped_code_point());
      return;
    }
    const auto i = kFrom.find(c);
    if (c == '\0' || i == std::string_view::npos) throw Bad{at_ - 1, "an escape character"};
    out += kTo[i];
  }

  std::string string() {
    expect('"', "a string");
    std::string out;
    for (;;) {
      const std::size_t start = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20) {
        ++at_;
      }
      out.append(text_, start, at_ - start);
      if (at_ >= text_.size()) throw Bad{at_, "the closing quote of a string"};
      if (text_[at_] == '"') break;
      if (text_[at_] != '\\') throw Bad{at_, "no raw control character in a string"};
      ++at_;
      escape(out);
    }
    ++at_;
    return out;
  }

  Value array(int depth) {
    ++at_;
    Array items;
    blanks();
    if (peek() == ']') {
      ++at_;
      return Value::array(std::move(items));
    }
    for (;;) {
      items.push_back(value(depth + 1));
      blanks();
      if (peek() == ']') break;
      expect(',', "',' or ']'");
    }
    ++at_;
    return Value::array(std::move(items));
  }

  Value object(int depth) {
    ++at_;
    Object members;
    blanks();
    if (peek() == '}') {
      ++at_;
      return Value::object(std::move(members));
    }
    for (;;) {
      blanks();
      std::string key = string();
      blanks();
      expect(':', "':'");
      members.emplace_back(std::move(key), value(depth + 1));
      blanks();
      if (peek() == '}') break;
      expect(',', "',' or '}'");
    }
    ++at_;
    return Value::object(std::move(members));
  }

  std::string_view text_;
  int max_depth_;
  std::size_t at_ = 0;
};

std::string describe(std::string_view text, const Bad& bad) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i < bad.at && i < text.size(); ++i) {
    ++column;
    if (text[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": expected " +
         bad.expected;
}

}  // namespace

Value Value::boolean(bool b) {
  Value v;
  v.kind_ = Kind::boolean;
  v.flag_ = b;
  return v;
}

Value Value::number(std::string text) {
  Value v;
  v.kind_ = Kind::number;
  v.text_ = std::make_shared<const std::string>(std::move(text));
  return v;
}

Value Value::string(std::string text) {
  Value v;
  v.kind_ = Kind::string;
  v.text_ = std::make_shared<const std::string>(std::move(text));
  return v;
}

Value Value::array(Array items) {
  Value v;
  v.kind_ = Kind::array;
  v.items_ = std::make_shared<const Array>(std::move(items));
  return v;
}

Value Value::object(Object members) {
  Value v;
  v.kind_ = Kind::object;
  auto order = std::make_shared<std::vector<std::uint32_t>>(sorted_by_key(members));
  if (drop_repeats(members, *order)) *order = sorted_by_key(members);
  if (members.size() >= kIndexFrom) v.by_key_ = std::move(order);
  v.members_ = std::make_shared<const Object>(std::move(members));
  return v;
}

const std::string& Value::text() const { return text_ ? *text_ : kNoText; }
const Array& Value::items() const { return items_ ? *items_ : kNoItems; }
const Object& Value::members() const { return members_ ? *members_ : kNoMembers; }

bool Value::is_integer() const {
  return kind_ == Kind::number && text().find_first_of(".eE") == std::string::npos;
}

double Value::as_double() const {
  // Underflow gives 0, overflow an infinity; the text is a JSON number, so all of it is read.
  return kind_ == Kind::number ? std::strtod(text().c_str(), nullptr) : 0;
}

std::int64_t Value::as_int() const {
  if (kind_ != Kind::number) return 0;
  const std::string& t = text();
  std::int64_t value = 0;
  const auto [end, ec] = std::from_chars(t.data(), t.data() + t.size(), value);
  if (ec == std::errc{} && end == t.data() + t.size()) return value;
  const double d = as_double();
  if (d >= 9.2e18) return std::numeric_limits<std::int64_t>::max();
  if (d <= -9.2e18) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(d);
}

const Value* Value::find(std::string_view key) const {
  if (by_key_) {
    const auto it = std::lower_bound(
        by_key_->begin(), by_key_->end(), key,
        [&](std::uint32_t i, std::string_view k) { return (*members_)[i].first < k; });
    if (it == by_key_->end() || (*members_)[*it].first != key) return nullptr;
    return &(*members_)[*it].second;
  }
  for (const Member& m : members()) {
    if (m.first == key) return &m.second;
  }
  return nullptr;
}

bool valid_utf8(std::string_view text) {
  std::size_t i = 0;
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  while (i < text.size()) {
    const unsigned lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) return false;
    std::uint32_t cp = lead & (0x7FU >> length);
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
      cp = (cp << 6) | (byte(i + k) & 0x3FU);
    }
    const bool overlong = (length == 3 && cp < 0x800) || (length == 4 && cp < 0x10000);
    if (overlong || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) return false;
    i += length;
  }
  return true;
}

Result<Value> parse(std::string_view text, int max_depth) {
  if (!valid_utf8(text)) return Error{ErrorCode::bad_request, "expected UTF-8 text", ""};
  try {
    return Parser(text, max_depth).document();
  } catch (const Bad& bad) {
    return Error{ErrorCode::bad_request, describe(text, bad), ""};
  }
}

}  // namespace cairn::json
