// SPDX-License-Identifier: Apache-2.0
// What both halves of the parser share: a cursor over tokens and the making of nodes.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/jinja_ast.hpp"
#include "model/text/jinja_lexer.hpp"

namespace cairn::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  Token take() {
    Token token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool at_op(std::string_view op) const { return is(current(), TokenKind::op, op); }
  bool at_name(std::string_view name) const { return is(current(), TokenKind::name, name); }
  bool skip_op(std::string_view op) { return at_op(op) && (take(), true); }
  bool skip_name(std::string_view name) { return at_name(name) && (take(), true); }

  [[noreturn]] void bad(const std::string& message, int line = 0) const {
    throw TemplateError{message, false, line != 0 ? line : this->line()};
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) bad("expected '" + std::string(op) + "', found " + describe(current()));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) bad("expected '" + std::string(name) + "', found " + describe(current()));
  }
  std::string expect_any_name(const char* what) {
    if (current().kind != TokenKind::name) {
      bad(std::string("expected ") + what + ", found " + describe(current()));
    }
    return take().text;
  }

  static std::string describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::end:
        return "the end of the template";
      case TokenKind::block_end:
        return "'%}'";
      case TokenKind::print_end:
        return "'}}'";
      case TokenKind::data:
      case TokenKind::print_begin:
      case TokenKind::block_begin:
        return "text outside of a tag";
      default:
        return "'" + token.text + "'";
    }
  }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// Parses expressions from a stream.
class ExprParser {
 public:
  explicit ExprParser(TokenStream& stream) : in_(stream) {}

  /// One expression; without `conditional`, an `if` behind it is left alone.
  ExprPtr expression(bool conditional = true);
  /// One expression, or several with commas as a tuple. `stop` is a name that may follow a trailing
  /// comma.
  ExprPtr tuple(bool conditional = true, std::string_view stop = {}, bool parenthesised = false);
  /// A name, a tuple of names, or with `namespaces` also `ns.attribute`.
  ExprPtr target(bool namespaces, std::string_view stop = {});
  /// Filters (`| name(...)`) applied to `base`, which may be null.
  ExprPtr filters(ExprPtr base, bool first_without_pipe = false);
  /// A single name (or a tuple in parentheses) that is bound to a value.
  ExprPtr parameter() { return target_item(); }

  /// Names read since construction, for finding out what a macro's body uses.
  std::set<std::string, std::less<>>& names_read() { return names_read_; }
  /// Counts nesting while parsing and fails when it is too deep.
  struct Depth {
    explicit Depth(ExprParser& p);
    ~Depth() { --parser.depth_; }
    ExprParser& parser;
  };

 private:
  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr finish(ExprPtr node) const;
  ExprPtr join(ExprKind kind, int line, ExprPtr left, ExprPtr right, std::string op = {}) const;
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters = true);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr list_literal();
  ExprPtr dict_literal();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filter_chain(ExprPtr node);
  ExprPtr call_of(ExprPtr callee);
  ExprPtr subscript(ExprPtr node);
  ExprPtr test(ExprPtr node);
  CallArgs call_args();
  ExprPtr target_item();

  TokenStream& in_;
  int depth_ = 0;
  std::set<std::string, std::less<>> names_read_;
};

}  // namespace cairn::text::jinja
