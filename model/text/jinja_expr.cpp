// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_interp.hpp"

namespace cairn::text::jinja {

Value Interp::eval(const Expr& expr) {
  const Depth depth(*this);
  heap_.step();
  line_ = expr.line;
  const auto& args = expr.args;
  switch (expr.kind) {
    case ExprKind::constant:
      return expr.constant;
    case ExprKind::name:
      return eval_name(expr);
    case ExprKind::list:
      return heap_.list(eval_all(args));
    case ExprKind::tuple:
      return heap_.tuple(eval_all(args));
    case ExprKind::dict:
      return eval_dict(expr);
    case ExprKind::conditional:
      if (truth(eval(*args[0]))) return eval(*args[1]);
      return args[2] ? eval(*args[2])
                     : heap_.undefined("the inline if has no else and its condition is false");
    case ExprKind::logical_or: {
      Value left = eval(*args[0]);
      return truth(left) ? left : eval(*args[1]);
    }
    case ExprKind::logical_and: {
      Value left = eval(*args[0]);
      return truth(left) ? eval(*args[1]) : left;
    }
    case ExprKind::logical_not:
      return Value::boolean(!truth(eval(*args[0])));
    case ExprKind::negate:
      return jinja::negate(eval(*args[0]));
    case ExprKind::plus: {
      const Value value = eval(*args[0]);
      if (value.is(Kind::boolean)) return Value::integer(value.as_int());
      if (!is_number(value) && !value.is(Kind::big_integer))
        return jinja::negate(value);  // fails and says why
      return value;
    }
    case ExprKind::binary: {
      const Value left = eval(*args[0]);
      const Value right = eval(*args[1]);
      return jinja::binary(heap_, expr.text, left, right);
    }
    case ExprKind::concat:
      return eval_concat(expr);
    case ExprKind::compare:
      return eval_compare(expr);
    case ExprKind::attribute:
      return jinja::attribute(heap_, eval(*args[0]), expr.text);
    case ExprKind::item: {
      const Value base = eval(*args[0]);
      return jinja::item(heap_, base, eval(*args[1]));
    }
    case ExprKind::slice:
      return eval_slice(expr);
    case ExprKind::call: {
      const Value callee = eval(*args[0]);
      const Args given = eval_args(expr.call);
      line_ = expr.line;
      return call(callee, given);
    }
    case ExprKind::filter:
      return eval_filter(expr, nullptr);
    case ExprKind::test: {
      const Value input = eval(*args[0]);
      const Args given = eval_args(expr.call);
      return Value::boolean(test(expr.text, input, given) != expr.negated);
    }
  }
  return {};
}

Value Interp::eval_name(const Expr& expr) {
  if (const Value* found = scope_->find(expr.text)) return *found;
  if (is_builtin(expr.text)) {
    auto object = heap_.make<CallableObject>();
    object->name = expr.text;
    return Value::object(Kind::callable, std::move(object));
  }
  return heap_.undefined("'" + expr.text + "' is undefined");
}

std::vector<Value> Interp::eval_all(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> out;
  out.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) out.push_back(eval(*expr));
  return out;
}

Value Interp::eval_dict(const Expr& expr) {
  auto dict = heap_.make<DictObject>();
  for (std::size_t i = 0; i + 1 < expr.args.size(); i += 2) {
    const Value key = eval(*expr.args[i]);
    dict->set(key, eval(*expr.args[i + 1]));
  }
  return heap_.dict(std::move(dict));
}

Value Interp::eval_slice(const Expr& expr) {
  const Value base = eval(*expr.args[0]);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    bounds[i] = expr.args[i + 1] ? eval(*expr.args[i + 1]) : Value::none();
  return jinja::slice(heap_, base, bounds[0], bounds[1], bounds[2]);
}

Value Interp::eval_compare(const Expr& expr) {
  Value left = eval(*expr.args[0]);
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = eval(*expr.args[i + 1]);
    if (!jinja::compare(heap_, expr.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interp::eval_concat(const Expr& expr) {
  OriginText out;
  for (const ExprPtr& arg : expr.args) {
    out.append(text(eval(*arg)));
    if (out.size() > heap_.limits().max_string_bytes) heap_.check_string(out.size());
  }
  return heap_.text(std::move(out));
}

Value Interp::eval_filter(const Expr& expr, const Value* input) {
  Value value;
  if (expr.args[0] == nullptr) {
    value = *input;
  } else if (input != nullptr && expr.args[0]->kind == ExprKind::filter) {
    value = eval_filter(*expr.args[0], input);
  } else {
    value = eval(*expr.args[0]);
  }
  const Args given = eval_args(expr.call);
  line_ = expr.line;
  return filter(expr.text, value, given);
}

Args Interp::eval_args(const CallArgs& call) {
  Args args;
  args.positional = eval_all(call.positional);
  if (call.star) {
    for (Value& value : iterate(heap_, eval(*call.star)))
      args.positional.push_back(std::move(value));
  }
  for (const auto& [name, expr] : call.named) args.named.emplace_back(name, eval(*expr));
  if (call.star_star) {
    const Value more = eval(*call.star_star);
    if (!more.is(Kind::dict)) fail("the argument behind ** must be a dict");
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is(Kind::string)) fail("keywords must be strings");
      args.named.emplace_back(key.text().bytes(), value);
    }
  }
  return args;
}

Value Interp::call(const Value& callee, const Args& args) {
  if (callee.is(Kind::undefined)) fail_undefined(callee);
  if (!callee.is(Kind::callable))
    fail(std::string("'") + kind_name(callee.kind()) + "' object is not callable");
  const auto& object = callee.as<CallableObject>();
  switch (object.type) {
    case CallableType::method:
      return call_method(heap_, object.self, object.name, args);
    case CallableType::builtin:
      return call_builtin(*this, object.name, args);
    case CallableType::macro:
      break;
  }
  const std::shared_ptr<Object> keep = callee.shared();
  return call_macro(object, args);
}

}  // namespace cairn::text::jinja
