// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.hpp"

#include <charconv>
#include <cmath>

namespace cairn {
namespace {

// Bytes of the UTF-8 character at the front of `text`; 0 when there is none.
std::size_t character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (length == 1) return 1;
  return text.size() >= length && json::valid_utf8(text.substr(0, length)) ? length : 0;
}

void append_escaped(std::string& out, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[(c >> 4) & 15];
      out += kHex[c & 15];
  }
}

void append_value(std::string& out, const json::Value& value) {
  switch (value.kind()) {
    case json::Kind::null:
      out += "null";
      return;
    case json::Kind::boolean:
      out += value.as_bool() ? "true" : "false";
      return;
    case json::Kind::number:
      out += value.text();
      return;
    case json::Kind::string:
      append_json_string(out, value.text());
      return;
    case json::Kind::array: {
      out += '[';
      const char* comma = "";
      for (const auto& item : value.items()) {
        out += comma;
        append_value(out, item);
        comma = ",";
      }
      out += ']';
      return;
    }
    case json::Kind::object: {
      out += '{';
      const char* comma = "";
      for (const auto& [name, member] : value.members()) {
        out += comma;
        append_json_string(out, name);
        out += ':';
        append_value(out, member);
        comma = ",";
      }
      out += '}';
    }
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F) {
      append_escaped(out, text[0]);
      text.remove_prefix(1);
      continue;
    }
    if (const std::size_t length = character(text); length > 0) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
      continue;
    }
    out += "\xEF\xBF\xBD";
    text.remove_prefix(1);
  }
  out += '"';
}

std::string dump_json(const json::Value& value) {
  std::string out;
  append_value(out, value);
  return out;
}

void JsonWriter::separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::open(char c) {
  separate();
  out_ += c;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char c) {
  out_ += c;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_json_string(out_, name);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  separate();
  append_json_string(out_, text);
  return *this;
}

template <class T>
JsonWriter& JsonWriter::digits(T value) {
  separate();
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out_.append(text, end);
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) { return digits(value); }
JsonWriter& JsonWriter::unsigned_integer(std::uint64_t value) { return digits(value); }

JsonWriter& JsonWriter::number(double value) {
  return std::isfinite(value) ? digits(value) : null();
}
JsonWriter& JsonWriter::number(float value) {
  return std::isfinite(value) ? digits(value) : null();
}

JsonWriter& JsonWriter::boolean(bool value) { return raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_.append(json);
  return *this;
}

}  // namespace cairn
