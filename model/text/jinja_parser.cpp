// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_parser.hpp"

#include "model/text/jinja_token_stream.hpp"

namespace cairn::text::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : in_(std::move(tokens)), exprs_(in_) {}

  Body document() {
    Body body = statements({}, "the template", 0);
    if (in_.current().kind != TokenKind::end)
      in_.bad("unexpected " + TokenStream::describe(in_.current()));
    return body;
  }

 private:
  StmtPtr make(StmtKind kind, int line) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  void close_tag() {
    if (in_.current().kind != TokenKind::block_end) {
      in_.bad("expected '%}', found " + TokenStream::describe(in_.current()));
    }
    in_.take();
  }

  // Statements up to a tag that starts with one of `ends`, whose name is left as the current token.
  Body statements(std::initializer_list<std::string_view> ends, const std::string& of, int opened) {
    const ExprParser::Depth depth(exprs_);
    Body body;
    for (;;) {
      const Token& token = in_.current();
      if (token.kind == TokenKind::data) {
        StmtPtr data = make(StmtKind::data, token.line);
        data->constant = literal(in_.take().text);
        body.push_back(std::move(data));
      } else if (token.kind == TokenKind::print_begin) {
        body.push_back(print());
      } else if (token.kind == TokenKind::block_begin) {
        in_.take();
        for (const std::string_view end : ends) {
          if (in_.at_name(end)) return body;
        }
        statement(body);
        close_tag();
      } else if (ends.size() == 0) {
        return body;
      } else {
        in_.bad("'" + of + "' is not closed", opened);
      }
    }
  }

  // The body of a tag: from its closing `%}` to `end...`, of which the `%}` stays.
  Body body_of(const char* name, const char* end, int line) {
    close_tag();
    Body body = statements({end}, name, line);
    in_.take();
    return body;
  }

  StmtPtr print() {
    StmtPtr stmt = make(StmtKind::print, in_.take().line);
    stmt->expr = exprs_.tuple();
    if (in_.current().kind != TokenKind::print_end) {
      in_.bad("expected '}}', found " + TokenStream::describe(in_.current()));
    }
    in_.take();
    return stmt;
  }

  void statement(Body& out) {
    const int line = in_.line();
    const std::string tag = in_.expect_any_name("a statement");
    if (tag == "set") {
      out.push_back(set(line));
    } else if (tag == "for") {
      out.push_back(for_loop(line));
    } else if (tag == "if") {
      out.push_back(branch(line));
    } else if (tag == "macro") {
      out.push_back(macro(line));
    } else if (tag == "call") {
      out.push_back(call_block(line));
    } else if (tag == "filter") {
      StmtPtr stmt = make(StmtKind::filter_block, line);
      stmt->expr = exprs_.filters(nullptr, true);
      stmt->body = body_of("filter", "endfilter", line);
      out.push_back(std::move(stmt));
    } else if (tag == "with") {
      out.push_back(with(line));
    } else if (tag == "generation") {
      StmtPtr stmt = make(StmtKind::scope, line);
      stmt->body = body_of("generation", "endgeneration", line);
      out.push_back(std::move(stmt));
    } else if (tag == "print") {
      do {
        StmtPtr stmt = make(StmtKind::print, line);
        stmt->expr = exprs_.expression();
        out.push_back(std::move(stmt));
      } while (in_.skip_op(","));
    } else if (tag == "break" || tag == "continue") {
      if (loops_ == 0) in_.bad("'" + tag + "' outside of a loop", line);
      out.push_back(make(tag == "break" ? StmtKind::loop_break : StmtKind::loop_continue, line));
    } else {
      in_.bad("the statement '" + tag + "' is not supported here", line);
    }
  }

  StmtPtr set(int line) {
    StmtPtr stmt = make(StmtKind::set, line);
    stmt->target = exprs_.target(true);
    if (in_.skip_op("=")) {
      stmt->expr = exprs_.tuple();
      return stmt;
    }
    stmt->kind = StmtKind::set_block;
    if (in_.at_op("|")) stmt->expr = exprs_.filters(nullptr);
    stmt->body = body_of("set", "endset", line);
    return stmt;
  }

  StmtPtr for_loop(int line) {
    StmtPtr stmt = make(StmtKind::for_loop, line);
    stmt->target = exprs_.target(false, "in");
    in_.expect_name("in");
    stmt->expr = exprs_.tuple(false, "recursive");
    if (in_.skip_name("if")) stmt->test = exprs_.expression();
    if (in_.at_name("recursive")) in_.bad("recursive loops are not supported", line);
    close_tag();
    ++loops_;
    std::set<std::string, std::less<>> outer;
    std::swap(outer, exprs_.names_read());
    stmt->body = statements({"endfor", "else"}, "for", line);
    stmt->uses_loop = exprs_.names_read().count("loop") != 0;
    exprs_.names_read().merge(outer);
    --loops_;
    if (in_.take().text == "else") stmt->otherwise = body_of("for", "endfor", line);
    return stmt;
  }

  StmtPtr branch(int line) {
    StmtPtr stmt = make(StmtKind::branch, line);
    for (std::string word = "if"; word != "endif";) {
      ExprPtr test = word == "else" ? nullptr : exprs_.tuple(false);
      close_tag();
      if (word == "else") {
        stmt->otherwise = statements({"endif"}, "if", line);
      } else {
        Body body = statements({"elif", "else", "endif"}, "if", line);
        stmt->branches.emplace_back(std::move(test), std::move(body));
      }
      word = in_.take().text;
    }
    return stmt;
  }

  std::vector<Param> signature() {
    std::vector<Param> params;
    in_.expect_op("(");
    while (!in_.at_op(")")) {
      if (!params.empty()) in_.expect_op(",");
      Param param;
      const int line = in_.line();
      param.target = exprs_.parameter();
      if (param.target->kind != ExprKind::name) in_.bad("a parameter must be a name", line);
      if (in_.skip_op("=")) {
        param.default_value = exprs_.expression();
      } else if (!params.empty() && params.back().default_value) {
        in_.bad("a parameter without default follows one with a default", line);
      }
      params.push_back(std::move(param));
    }
    in_.expect_op(")");
    return params;
  }

  // A macro takes what its body names: varargs, kwargs and caller.
  void macro_body(Stmt& stmt, const char* name, const char* end) {
    std::set<std::string, std::less<>> outer;
    std::swap(outer, exprs_.names_read());
    const int loops = std::exchange(loops_, 0);
    stmt.body = body_of(name, end, stmt.line);
    loops_ = loops;
    auto& read = exprs_.names_read();
    stmt.macro.takes_varargs = read.count("varargs") != 0;
    stmt.macro.takes_kwargs = read.count("kwargs") != 0;
    stmt.macro.takes_caller = read.count("caller") != 0;
    read.merge(outer);
  }

  StmtPtr macro(int line) {
    StmtPtr stmt = make(StmtKind::macro, line);
    stmt->macro.name = in_.expect_any_name("a macro name");
    stmt->macro.params = signature();
    macro_body(*stmt, "macro", "endmacro");
    return stmt;
  }

  StmtPtr call_block(int line) {
    StmtPtr stmt = make(StmtKind::call_block, line);
    stmt->macro.name = "caller";
    if (in_.at_op("(")) stmt->macro.params = signature();
    stmt->expr = exprs_.expression();
    if (stmt->expr->kind != ExprKind::call) in_.bad("'call' needs a call", line);
    macro_body(*stmt, "call", "endcall");
    return stmt;
  }

  StmtPtr with(int line) {
    StmtPtr stmt = make(StmtKind::with, line);
    while (in_.current().kind != TokenKind::block_end) {
      if (!stmt->macro.params.empty()) in_.expect_op(",");
      Param param;
      param.target = exprs_.parameter();
      in_.expect_op("=");
      param.default_value = exprs_.expression();
      stmt->macro.params.push_back(std::move(param));
    }
    stmt->body = body_of("with", "endwith", line);
    return stmt;
  }

  TokenStream in_;
  ExprParser exprs_;
  int loops_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(tokenize(source)).document(); }

}  // namespace cairn::text::jinja
