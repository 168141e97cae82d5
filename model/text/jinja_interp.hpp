// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/jinja_ast.hpp"
#include "model/text/jinja_callable.hpp"
#include "model/text/jinja_ops.hpp"
#include "model/text/jinja_value.hpp"

namespace cairn::text::jinja {

/// Runs a template once. Not thread-safe; owns every value it makes.
class Interp {
 public:
  Interp(const RenderLimits& limits, std::time_t now);

  void define(const std::string& name, Value value) { scope_->set(name, std::move(value)); }
  OriginText run(const Body& body);

  Heap& heap() { return heap_; }
  std::time_t now() const { return now_; }
  int line() const { return line_; }
  OriginText text(const Value& value) { return to_text(heap_, value); }

  Value filter(std::string_view name, const Value& input, const Args& args);
  bool test(std::string_view name, const Value& input, const Args& args);
  Value call(const Value& callee, const Args& args);

 private:
  enum class Flow { next, loop_break, loop_continue };
  class Depth;

  // Expressions (jinja_expr.cpp).
  Value eval(const Expr& expr);
  Value eval_name(const Expr& expr);
  Value eval_dict(const Expr& expr);
  Value eval_slice(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_concat(const Expr& expr);
  Value eval_filter(const Expr& expr, const Value* input);
  std::vector<Value> eval_all(const std::vector<ExprPtr>& exprs);
  Args eval_args(const CallArgs& call);

  // Statements (jinja_stmt.cpp).
  Flow exec(const Body& body);
  Flow exec(const Stmt& stmt);
  Flow exec_for(const Stmt& stmt);
  Flow exec_branch(const Stmt& stmt);
  Flow exec_with(const Stmt& stmt);
  void exec_set_block(const Stmt& stmt);
  void exec_call_block(const Stmt& stmt);
  void assign(const Expr& target, Value value);
  void print(const Value& value);
  void emit(const OriginText& text);
  OriginText capture(const Body& body);
  Value make_macro(const Stmt& stmt);
  Value call_macro(const CallableObject& macro, const Args& args);

  Heap heap_;  // first: outlives every value
  std::shared_ptr<Scope> scope_;
  OriginText* out_ = nullptr;
  std::time_t now_;
  int line_ = 0;
  std::size_t depth_ = 0;
  std::size_t written_ = 0;
};

/// Functions every template can call (jinja_globals.cpp).
bool is_builtin(std::string_view name);
Value call_builtin(Interp& in, std::string_view name, const Args& args);
bool test_exists(std::string_view name);
bool filter_exists(std::string_view name);

/// Counts one level of nesting for as long as it lives.
class Interp::Depth {
 public:
  explicit Depth(Interp& in) : in_(in) {
    if (++in_.depth_ > in_.heap_.limits().max_depth) {
      --in_.depth_;
      fail("nested more than " + std::to_string(in_.heap_.limits().max_depth) + " levels deep");
    }
  }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() { --in_.depth_; }

 private:
  Interp& in_;
};

}  // namespace cairn::text::jinja
