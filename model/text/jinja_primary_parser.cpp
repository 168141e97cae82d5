// SPDX-License-Identifier: Apache-2.0
// Literals, names, subscripts, arguments and assignment targets.
#include <charconv>

#include "model/text/jinja_token_stream.hpp"

namespace cairn::text::jinja {
namespace {

bool is_constant_name(std::string_view name) {
  return name == "true" || name == "false" || name == "True" || name == "False" || name == "none" ||
         name == "None";
}

}  // namespace

ExprPtr ExprParser::primary() {
  const Token& token = in_.current();
  switch (token.kind) {
    case TokenKind::name:
      return name_or_constant();
    case TokenKind::string: {
      ExprPtr node = make(ExprKind::constant, token.line);
      std::string text;
      while (in_.current().kind == TokenKind::string) text += in_.take().text;
      node->constant = literal(std::move(text));
      return node;
    }
    case TokenKind::integer: {
      ExprPtr node = make(ExprKind::constant, token.line);
      const std::string text = in_.take().text;
      std::int64_t value = 0;
      const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (ec != std::errc{}) in_.bad("integer '" + text + "' does not fit 64 bits", node->line);
      node->constant = Value::integer(value);
      return node;
    }
    case TokenKind::real: {
      ExprPtr node = make(ExprKind::constant, token.line);
      node->constant = Value::real(json::Value::number(in_.take().text).as_double());
      return node;
    }
    default:
      break;
  }
  if (in_.skip_op("(")) {
    ExprPtr node = tuple(true, {}, true);
    in_.expect_op(")");
    return node;
  }
  if (in_.at_op("[")) return list_literal();
  if (in_.at_op("{")) return dict_literal();
  in_.bad("expected an expression, found " + TokenStream::describe(token));
}

ExprPtr ExprParser::name_or_constant() {
  const Token token = in_.take();
  if (!is_constant_name(token.text)) {
    ExprPtr node = make(ExprKind::name, token.line);
    node->text = token.text;
    names_read_.insert(token.text);
    return node;
  }
  ExprPtr node = make(ExprKind::constant, token.line);
  if (token.text == "none" || token.text == "None") {
    node->constant = Value::none();
  } else {
    node->constant = Value::boolean(token.text == "true" || token.text == "True");
  }
  return node;
}

ExprPtr ExprParser::tuple(bool conditional, std::string_view stop, bool parenthesised) {
  const int line = in_.line();
  const auto ended = [&] {
    const Token& t = in_.current();
    return t.kind == TokenKind::block_end || t.kind == TokenKind::print_end || in_.at_op(")") ||
           (!stop.empty() && in_.at_name(stop));
  };
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) in_.expect_op(",");
    if (ended()) break;
    items.push_back(expression(conditional));
    if (!in_.at_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !parenthesised) {
    in_.bad("expected an expression, found " + TokenStream::describe(in_.current()));
  }
  ExprPtr node = make(ExprKind::tuple, line);
  node->args = std::move(items);
  return finish(std::move(node));
}

ExprPtr ExprParser::list_literal() {
  ExprPtr node = make(ExprKind::list, in_.take().line);
  while (!in_.at_op("]")) {
    if (!node->args.empty()) in_.expect_op(",");
    if (in_.at_op("]")) break;
    node->args.push_back(expression());
  }
  in_.expect_op("]");
  return finish(std::move(node));
}

ExprPtr ExprParser::dict_literal() {
  ExprPtr node = make(ExprKind::dict, in_.take().line);
  while (!in_.at_op("}")) {
    if (!node->args.empty()) in_.expect_op(",");
    if (in_.at_op("}")) break;
    node->args.push_back(expression());
    in_.expect_op(":");
    node->args.push_back(expression());
  }
  in_.expect_op("}");
  return finish(std::move(node));
}

ExprPtr ExprParser::subscript(ExprPtr base) {
  const Token open = in_.take();
  if (open.text == ".") {
    if (in_.current().kind == TokenKind::integer)
      return join(ExprKind::item, open.line, std::move(base), primary());
    ExprPtr node = make(ExprKind::attribute, open.line);
    node->text = in_.expect_any_name("an attribute name");
    node->args.push_back(std::move(base));
    return finish(std::move(node));
  }
  ExprPtr start = in_.at_op(":") ? nullptr : expression();
  if (!in_.at_op(":")) {
    if (in_.at_op(",")) in_.bad("subscripts with several indices are not supported");
    in_.expect_op("]");
    return join(ExprKind::item, open.line, std::move(base), std::move(start));
  }
  ExprPtr node = make(ExprKind::slice, open.line);
  node->args.push_back(std::move(base));
  node->args.push_back(std::move(start));
  for (int part = 0; part < 2; ++part) {
    const bool given = in_.skip_op(":") && !in_.at_op(":") && !in_.at_op("]");
    node->args.push_back(given ? expression() : nullptr);
  }
  in_.expect_op("]");
  return finish(std::move(node));
}

CallArgs ExprParser::call_args() {
  CallArgs call;
  in_.expect_op("(");
  for (bool first = true; !in_.at_op(")"); first = false) {
    if (!first) {
      in_.expect_op(",");
      if (in_.at_op(")")) break;
    }
    const bool named =
        in_.current().kind == TokenKind::name && TokenStream::is(in_.ahead(), TokenKind::op, "=");
    if (call.star_star || (call.star && !named && !in_.at_op("**")))
      in_.bad("arguments in the wrong order");
    if (in_.skip_op("*")) {
      call.star = expression();
    } else if (in_.skip_op("**")) {
      call.star_star = expression();
    } else if (named) {
      std::string name = in_.take().text;
      in_.take();
      call.named.emplace_back(std::move(name), expression());
    } else {
      if (!call.named.empty()) in_.bad("arguments in the wrong order");
      call.positional.push_back(expression());
    }
  }
  in_.expect_op(")");
  return call;
}

ExprPtr ExprParser::target_item() {
  const Depth depth(*this);
  const int line = in_.line();
  if (in_.skip_op("(")) {
    ExprPtr node = target(false);
    in_.expect_op(")");
    return node;
  }
  ExprPtr node = make(ExprKind::name, line);
  node->text = in_.expect_any_name("a name to assign to");
  if (is_constant_name(node->text)) in_.bad("'" + node->text + "' cannot be assigned to", line);
  return node;
}

ExprPtr ExprParser::target(bool namespaces, std::string_view stop) {
  const int line = in_.line();
  if (namespaces && in_.current().kind == TokenKind::name &&
      TokenStream::is(in_.ahead(), TokenKind::op, ".")) {
    ExprPtr node = make(ExprKind::attribute, line);
    node->args.push_back(target_item());
    in_.take();
    node->text = in_.expect_any_name("an attribute name");
    return finish(std::move(node));
  }
  std::vector<ExprPtr> items;
  items.push_back(target_item());
  if (!in_.at_op(",")) return std::move(items[0]);
  while (in_.skip_op(",")) {
    if (in_.at_op("=") || in_.at_op(")") || (!stop.empty() && in_.at_name(stop))) break;
    items.push_back(target_item());
  }
  ExprPtr node = make(ExprKind::tuple, line);
  node->args = std::move(items);
  return finish(std::move(node));
}

}  // namespace cairn::text::jinja
