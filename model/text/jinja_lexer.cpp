// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_lexer.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "model/text/jinja_value.hpp"

namespace cairn::text::jinja {
namespace {

// One line ending only, and no newline at the very end, as the reference environment reads sources.
std::string unify_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
}
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) outside();
    emit(TokenKind::end, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void bad(const std::string& message, int line = 0) const {
    throw TemplateError{message, false, line != 0 ? line : line_};
  }

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool looking_at(std::string_view word) const {
    return std::string_view(source_).substr(at_, word.size()) == word;
  }
  void advance(std::size_t n) {
    for (; n > 0 && at_ < source_.size(); --n) {
      if (source_[at_++] == '\n') ++line_;
    }
  }
  void skip_blanks() {
    while (at_ < source_.size() && is_blank(source_[at_])) advance(1);
  }
  void emit(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Where the next tag opens, or the end.
  std::size_t next_tag() const {
    for (std::size_t i = at_; (i = source_.find('{', i)) != std::string::npos; ++i) {
      const char c = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (c == '{' || c == '%' || c == '#') return i;
    }
    return source_.size();
  }

  // Text before a tag loses the white space that the tag's sign or lstrip_blocks takes.
  std::string before_tag(std::size_t tag, char sign, bool strips) const {
    std::string text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      while (!text.empty() && is_blank(text.back())) text.pop_back();
    } else if (strips && sign != '+') {
      const std::size_t newline = text.rfind('\n');
      const std::size_t start = newline == std::string::npos ? 0 : newline + 1;
      const bool at_line_start = start > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (at_line_start &&
          std::all_of(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(), is_blank)) {
        text.resize(start);
      }
    }
    return text;
  }

  void outside() {
    const std::size_t tag = next_tag();
    if (tag == source_.size()) {
      emit(TokenKind::data, source_.substr(at_));
      advance(tag - at_);
      return;
    }
    const char type = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    std::string text = before_tag(tag, sign, type != '{');
    if (!text.empty()) emit(TokenKind::data, std::move(text));
    advance(tag - at_);
    advance(sign != '\0' ? 3 : 2);
    if (type == '#') {
      comment();
    } else if (type == '%' && raw_opens()) {
      raw();
    } else {
      inside(type == '{');
    }
  }

  void after_block(char sign) {
    if (sign == '-') {
      skip_blanks();
    } else if (sign != '+' && peek() == '\n') {
      advance(1);
    }
  }

  void comment() {
    const int opened = line_;
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) bad("a comment is not closed", opened);
    char sign = end > at_ ? source_[end - 1] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    advance(end + 2 - at_);
    after_block(sign);
  }

  // At the inside of a `{%`: consumes `raw %}` if that is what follows.
  bool raw_opens() {
    std::size_t i = at_;
    const auto blanks = [&] {
      while (i < source_.size() && is_blank(source_[i])) ++i;
    };
    blanks();
    if (source_.compare(i, 3, "raw") != 0) return false;
    i += 3;
    blanks();
    const bool strip = i < source_.size() && source_[i] == '-';
    if (strip) ++i;
    if (source_.compare(i, 2, "%}") != 0) return false;
    i += 2;
    if (strip) blanks();
    advance(i - at_);
    return true;
  }

  void raw() {
    const int opened = line_;
    for (std::size_t i = at_; (i = source_.find("{%", i)) != std::string::npos; ++i) {
      std::size_t k = i + 2;
      char sign = k < source_.size() ? source_[k] : '\0';
      if (sign == '-' || sign == '+') {
        ++k;
      } else {
        sign = '\0';
      }
      while (k < source_.size() && is_blank(source_[k])) ++k;
      if (source_.compare(k, 6, "endraw") != 0) continue;
      k += 6;
      while (k < source_.size() && is_blank(source_[k])) ++k;
      char close = k < source_.size() ? source_[k] : '\0';
      if (close == '-' || close == '+') {
        ++k;
      } else {
        close = '\0';
      }
      if (source_.compare(k, 2, "%}") != 0) continue;
      std::string text = before_tag(i, sign, true);
      if (!text.empty()) emit(TokenKind::data, std::move(text));
      advance(k + 2 - at_);
      after_block(close);
      return;
    }
    bad("a raw block is not closed", opened);
  }

  void inside(bool print) {
    emit(print ? TokenKind::print_begin : TokenKind::block_begin, {});
    const int opened = line_;
    const std::string_view close = print ? "}}" : "%}";
    std::string open_brackets;
    for (;;) {
      if (open_brackets.empty()) {
        const std::size_t sign = peek() == '-' || (!print && peek() == '+') ? 1 : 0;
        if (std::string_view(source_).substr(std::min(at_ + sign, source_.size()), 2) == close) {
          const char c = sign != 0 ? peek() : '\0';
          emit(print ? TokenKind::print_end : TokenKind::block_end, {});
          advance(sign + 2);
          if (!print) {
            after_block(c);
          } else if (c == '-') {
            skip_blanks();
          }
          return;
        }
      }
      if (at_ >= source_.size()) bad("a tag is not closed", opened);
      const char c = peek();
      if (is_blank(c)) {
        advance(1);
      } else if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        const std::size_t start = at_;
        while (is_name(peek())) ++at_;
        emit(TokenKind::name, source_.substr(start, at_ - start));
      } else if (c == '"' || c == '\'') {
        string(c);
      } else {
        op(open_brackets);
      }
    }
  }

  void op(std::string& open_brackets) {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view two : kTwo) {
      if (looking_at(two)) {
        emit(TokenKind::op, std::string(two));
        advance(2);
        return;
      }
    }
    const char c = peek();
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    if (kOne.find(c) == std::string_view::npos)
      bad(std::string("unexpected character '") + c + "'");
    if (c == '(') open_brackets += ')';
    if (c == '[') open_brackets += ']';
    if (c == '{') open_brackets += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) {
        bad(std::string("unexpected '") + c + "'");
      }
      open_brackets.pop_back();
    }
    emit(TokenKind::op, std::string(1, c));
    advance(1);
  }

  std::size_t digits(std::size_t i, std::string& out) const {
    while (i < source_.size() &&
           (is_digit(source_[i]) ||
            (source_[i] == '_' && i + 1 < source_.size() && is_digit(source_[i + 1])))) {
      if (source_[i] != '_') out += source_[i];
      ++i;
    }
    return i;
  }

  void number() {
    const char prefix = static_cast<char>(std::tolower(static_cast<unsigned char>(peek(1))));
    if (peek() == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b')) {
      const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2;
      std::int64_t value = 0;
      const char* end = source_.data() + source_.size();
      const auto [stop, ec] = std::from_chars(source_.data() + at_ + 2, end, value, base);
      if (ec != std::errc{}) bad("malformed number");
      emit(TokenKind::integer, std::to_string(value));
      at_ = static_cast<std::size_t>(stop - source_.data());
      return;
    }
    std::string text;
    std::size_t i = digits(at_, text);
    bool real = false;
    const auto at = [&](std::size_t k) { return k < source_.size() ? source_[k] : '\0'; };
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // x.0.1 is two subscripts
    if (!after_dot && at(i) == '.' && is_digit(at(i + 1))) {
      real = true;
      text += '.';
      i = digits(i + 1, text);
    }
    if (!after_dot && (at(i) == 'e' || at(i) == 'E')) {
      const std::size_t sign = at(i + 1) == '+' || at(i + 1) == '-' ? 1 : 0;
      if (is_digit(at(i + 1 + sign))) {
        real = true;
        text += source_.substr(i, 1 + sign);
        i = digits(i + 1 + sign, text);
      }
    }
    if (!real && text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of('0') != std::string::npos) {
      bad("malformed number '" + text + "'");
    }
    emit(real ? TokenKind::real : TokenKind::integer, std::move(text));
    at_ = i;
  }

  void string(char quote) {
    const int opened = line_;
    std::string out;
    advance(1);
    while (peek() != quote || at_ >= source_.size()) {
      if (at_ >= source_.size()) bad("a string is not closed", opened);
      if (peek() == '\\') {
        advance(1);
        escape(out);
      } else {
        out += peek();
        advance(1);
      }
    }
    advance(1);
    tokens_.push_back({TokenKind::string, std::move(out), opened});
  }

  std::uint32_t hex(std::size_t n) {
    std::uint32_t cp = 0;
    const std::string_view text =
        std::string_view(source_).substr(std::min(at_, source_.size()), n);
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), cp, 16);
    if (ec != std::errc{} || text.size() != n || end != text.data() + n || cp > 0x10FFFF ||
        (cp >= 0xD800 && cp <= 0xDFFF)) {
      bad("malformed escape in a string");
    }
    at_ += n;
    return cp;
  }

  // Behind the backslash; an unknown escape keeps it, as in Python.
  void escape(std::string& out) {
    const char c = peek();
    constexpr std::string_view kFrom = "\\'\"abfnrtv";
    constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    if (const auto i = kFrom.find(c); i != std::string_view::npos && c != '\0') {
      out += kTo[i];
      advance(1);
    } else if (c == '\n') {
      advance(1);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++at_;
      append_code_point(out, hex(c == 'x' ? 2 : c == 'u' ? 4 : 8));
    } else if (c >= '0' && c <= '7') {
      std::uint32_t cp = 0;
      for (int k = 0; k < 3 && peek() >= '0' && peek() <= '7'; ++k, ++at_) {
        cp = cp * 8 + static_cast<std::uint32_t>(peek() - '0');
      }
      append_code_point(out, cp);
    } else {
      out += '\\';
    }
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(unify_newlines(source)).run(); }

}  // namespace cairn::text::jinja
