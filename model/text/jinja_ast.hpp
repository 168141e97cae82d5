// SPDX-License-Identifier: Apache-2.0
// The syntax tree of a template. Immutable once parsed; shared by all renderings.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/text/jinja_value.hpp"

namespace cairn::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *list
  ExprPtr star_star;  // **dict
};

enum class ExprKind : std::uint8_t {
  constant,
  name,
  list,         // args
  tuple,        // args
  dict,         // args: key, value, key, value
  conditional,  // args: test, then, else (may be null)
  logical_or,
  logical_and,
  logical_not,
  negate,
  plus,
  binary,     // text: the operator
  concat,     // args
  compare,    // args: first, then one per operator in `operators`
  attribute,  // args[0], text
  item,       // args[0], args[1]
  slice,      // args[0], then start, stop, step (each may be null)
  call,       // args[0], call
  filter,     // args[0] (null: the body of a filter block), text, call
  test        // args[0], text, call; `negated`
};

struct Expr {
  ExprKind kind = ExprKind::constant;
  int line = 0;
  int height = 1;
  bool negated = false;
  std::string text;
  Value constant;
  std::vector<ExprPtr> args;
  std::vector<std::string> operators;
  CallArgs call;
};

enum class StmtKind : std::uint8_t {
  data,          // constant
  print,         // expr
  set,           // target, expr
  set_block,     // target, body, expr: filters or null
  for_loop,      // target, expr, test, body, otherwise
  branch,        // branches, otherwise
  macro,         // name, params, body
  call_block,    // params, expr: the call, body
  filter_block,  // expr, body
  with,          // targets and values as params, body
  scope,         // body: a passthrough tag
  loop_break,
  loop_continue
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Param {
  ExprPtr target;         // a name, or a tuple for `with`
  ExprPtr default_value;  // may be null
};

struct MacroInfo {
  std::string name;
  std::vector<Param> params;
  bool takes_varargs = false;
  bool takes_kwargs = false;
  bool takes_caller = false;
};

struct Stmt {
  StmtKind kind = StmtKind::data;
  int line = 0;
  bool uses_loop = false;  // for_loop: the body reads `loop`
  Value constant;
  ExprPtr target;
  ExprPtr expr;
  ExprPtr test;
  Body body;
  Body otherwise;
  std::vector<std::pair<ExprPtr, Body>> branches;
  MacroInfo macro;
};

}  // namespace cairn::text::jinja
