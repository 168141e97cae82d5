// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_token_stream.hpp"

namespace cairn::text::jinja {
namespace {

constexpr int kMaxNesting = 100;  // of expressions in the source, and of statements

bool one_of(const Token& token, std::initializer_list<std::string_view> ops) {
  if (token.kind != TokenKind::op) return false;
  return std::find(ops.begin(), ops.end(), token.text) != ops.end();
}

int height_of(const CallArgs& call) {
  int height = 0;
  const auto see = [&](const ExprPtr& e) {
    if (e) height = std::max(height, e->height);
  };
  for (const ExprPtr& e : call.positional) see(e);
  for (const auto& [name, e] : call.named) see(e);
  see(call.star);
  see(call.star_star);
  return height;
}

}  // namespace

ExprParser::Depth::Depth(ExprParser& p) : parser(p) {
  if (parser.depth_ >= kMaxNesting) parser.in_.bad("nested too deeply");
  ++parser.depth_;
}

ExprPtr ExprParser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

// Long chains (`a + b + c ...`) make deep trees without deep parsing, so the height is limited
// here.
ExprPtr ExprParser::finish(ExprPtr node) const {
  int below = height_of(node->call);
  for (const ExprPtr& arg : node->args) {
    if (arg) below = std::max(below, arg->height);
  }
  node->height = below + 1;
  if (node->height > 2 * kMaxNesting) in_.bad("nested too deeply", node->line);
  return node;
}

ExprPtr ExprParser::join(ExprKind kind, int line, ExprPtr left, ExprPtr right,
                         std::string op) const {
  ExprPtr node = make(kind, line);
  node->text = std::move(op);
  node->args.push_back(std::move(left));
  node->args.push_back(std::move(right));
  return finish(std::move(node));
}

ExprPtr ExprParser::expression(bool conditional) {
  const Depth depth(*this);
  ExprPtr value = logical_or();
  while (conditional && in_.at_name("if")) {
    const int line = in_.take().line;
    ExprPtr node = make(ExprKind::conditional, line);
    node->args.push_back(logical_or());
    node->args.push_back(std::move(value));
    node->args.push_back(in_.skip_name("else") ? expression() : nullptr);
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr ExprParser::logical_or() {
  ExprPtr left = logical_and();
  while (in_.at_name("or")) {
    const int line = in_.take().line;
    left = join(ExprKind::logical_or, line, std::move(left), logical_and());
  }
  return left;
}

ExprPtr ExprParser::logical_and() {
  ExprPtr left = logical_not();
  while (in_.at_name("and")) {
    const int line = in_.take().line;
    left = join(ExprKind::logical_and, line, std::move(left), logical_not());
  }
  return left;
}

ExprPtr ExprParser::logical_not() {
  if (!in_.at_name("not")) return compare();
  const Depth depth(*this);
  ExprPtr node = make(ExprKind::logical_not, in_.take().line);
  node->args.push_back(logical_not());
  return finish(std::move(node));
}

ExprPtr ExprParser::compare() {
  ExprPtr first = sum();
  ExprPtr node;
  for (;;) {
    std::string op;
    const int line = in_.line();
    if (one_of(in_.current(), {"==", "!=", "<", "<=", ">", ">="})) {
      op = in_.take().text;
    } else if (in_.skip_name("in")) {
      op = "in";
    } else if (in_.at_name("not") && TokenStream::is(in_.ahead(), TokenKind::name, "in")) {
      in_.take();
      in_.take();
      op = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(ExprKind::compare, line);
      node->args.push_back(std::move(first));
    }
    node->operators.push_back(std::move(op));
    node->args.push_back(sum());
  }
  return node ? finish(std::move(node)) : std::move(first);
}

ExprPtr ExprParser::sum() {
  ExprPtr left = concat();
  while (one_of(in_.current(), {"+", "-"})) {
    Token op = in_.take();
    left = join(ExprKind::binary, op.line, std::move(left), concat(), op.text);
  }
  return left;
}

ExprPtr ExprParser::concat() {
  ExprPtr first = product();
  if (!in_.at_op("~")) return first;
  ExprPtr node = make(ExprKind::concat, in_.line());
  node->args.push_back(std::move(first));
  while (in_.skip_op("~")) node->args.push_back(product());
  return finish(std::move(node));
}

ExprPtr ExprParser::product() {
  ExprPtr left = power();
  while (one_of(in_.current(), {"*", "/", "//", "%"})) {
    Token op = in_.take();
    left = join(ExprKind::binary, op.line, std::move(left), power(), op.text);
  }
  return left;
}

ExprPtr ExprParser::power() {
  ExprPtr left = unary();
  while (in_.at_op("**")) {
    Token op = in_.take();
    left = join(ExprKind::binary, op.line, std::move(left), unary(), op.text);
  }
  return left;
}

ExprPtr ExprParser::unary(bool with_filters) {
  ExprPtr node;
  if (one_of(in_.current(), {"-", "+"})) {
    const Depth depth(*this);
    const Token op = in_.take();
    node = make(op.text == "-" ? ExprKind::negate : ExprKind::plus, op.line);
    node->args.push_back(unary(false));
    node = finish(std::move(node));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filter_chain(std::move(node)) : std::move(node);
}

ExprPtr ExprParser::postfix(ExprPtr node) {
  for (;;) {
    if (in_.at_op(".") || in_.at_op("[")) {
      node = subscript(std::move(node));
    } else if (in_.at_op("(")) {
      node = call_of(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExprParser::filter_chain(ExprPtr node) {
  for (;;) {
    if (in_.at_op("|")) {
      node = filters(std::move(node));
    } else if (in_.at_name("is")) {
      node = test(std::move(node));
    } else if (in_.at_op("(")) {
      node = call_of(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExprParser::call_of(ExprPtr callee) {
  ExprPtr node = make(ExprKind::call, in_.line());
  node->args.push_back(std::move(callee));
  node->call = call_args();
  return finish(std::move(node));
}

ExprPtr ExprParser::filters(ExprPtr node, bool first_without_pipe) {
  while (first_without_pipe || in_.skip_op("|")) {
    first_without_pipe = false;
    ExprPtr filter = make(ExprKind::filter, in_.line());
    filter->text = in_.expect_any_name("a filter name");
    filter->args.push_back(std::move(node));
    if (in_.at_op("(")) filter->call = call_args();
    node = finish(std::move(filter));
  }
  return node;
}

ExprPtr ExprParser::test(ExprPtr operand) {
  ExprPtr node = make(ExprKind::test, in_.take().line);
  node->negated = in_.skip_name("not");
  node->text = in_.expect_any_name("a test name");
  node->args.push_back(std::move(operand));
  const Token& next = in_.current();
  const bool word_follows = next.kind == TokenKind::name && next.text != "else" &&
                            next.text != "or" && next.text != "and" && next.text != "is" &&
                            next.text != "if";
  if (in_.at_op("(")) {
    node->call = call_args();
  } else if (word_follows || next.kind == TokenKind::string || next.kind == TokenKind::integer ||
             next.kind == TokenKind::real || in_.at_op("[") || in_.at_op("{")) {
    const Depth depth(*this);
    node->call.positional.push_back(postfix(primary()));
  } else if (in_.at_name("is")) {
    in_.bad("tests cannot be chained with 'is'");
  }
  return finish(std::move(node));
}

}  // namespace cairn::text::jinja
