// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_interp.hpp"

namespace cairn::text::jinja {
namespace {

// Swaps a member for as long as it lives.
template <class T>
class Swapped {
 public:
  Swapped(T& place, T value) : place_(place), old_(std::exchange(place, std::move(value))) {}
  Swapped(const Swapped&) = delete;
  Swapped& operator=(const Swapped&) = delete;
  ~Swapped() { place_ = std::move(old_); }

 private:
  T& place_;
  T old_;
};

using InScope = Swapped<std::shared_ptr<Scope>>;

}  // namespace

Interp::Interp(const RenderLimits& limits, std::time_t now)
    : heap_(limits), scope_(std::make_shared<Scope>(nullptr)), now_(now) {}

OriginText Interp::run(const Body& body) { return capture(body); }

OriginText Interp::capture(const Body& body) {
  OriginText text;
  const Swapped<OriginText*> into(out_, &text);
  exec(body);
  return text;
}

void Interp::emit(const OriginText& text) {
  written_ += text.size();
  if (written_ > heap_.limits().max_output_bytes) {
    fail("writes more than " + std::to_string(heap_.limits().max_output_bytes) + " bytes");
  }
  out_->append(text);
}

void Interp::print(const Value& value) {
  if (value.is(Kind::string)) return emit(value.text());
  emit(text(value));
}

Interp::Flow Interp::exec(const Body& body) {
  for (const auto& stmt : body) {
    const Flow flow = exec(*stmt);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interp::Flow Interp::exec(const Stmt& stmt) {
  const Depth depth(*this);
  heap_.step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::data:
      emit(stmt.constant.text());
      break;
    case StmtKind::print:
      print(eval(*stmt.expr));
      break;
    case StmtKind::set:
      assign(*stmt.target, eval(*stmt.expr));
      break;
    case StmtKind::set_block:
      exec_set_block(stmt);
      break;
    case StmtKind::for_loop:
      return exec_for(stmt);
    case StmtKind::branch:
      return exec_branch(stmt);
    case StmtKind::macro:
      scope_->set(stmt.macro.name, make_macro(stmt));
      break;
    case StmtKind::call_block:
      exec_call_block(stmt);
      break;
    case StmtKind::filter_block: {
      const InScope inner(scope_, std::make_shared<Scope>(scope_));
      const Value body = heap_.text(capture(stmt.body));
      print(eval_filter(*stmt.expr, &body));
      break;
    }
    case StmtKind::with:
      return exec_with(stmt);
    case StmtKind::scope: {
      const InScope inner(scope_, std::make_shared<Scope>(scope_));
      return exec(stmt.body);
    }
    case StmtKind::loop_break:
      return Flow::loop_break;
    case StmtKind::loop_continue:
      return Flow::loop_continue;
  }
  return Flow::next;
}

Interp::Flow Interp::exec_branch(const Stmt& stmt) {
  for (const auto& [test, body] : stmt.branches) {
    if (truth(eval(*test))) return exec(body);
  }
  return exec(stmt.otherwise);
}

Interp::Flow Interp::exec_for(const Stmt& stmt) {
  std::vector<Value> items = iterate(heap_, eval(*stmt.expr));
  const auto passes = [&](const Value& item) {
    const InScope inner(scope_, std::make_shared<Scope>(scope_));
    assign(*stmt.target, item);
    return truth(eval(*stmt.test));
  };
  // The filter of a loop that does not look at `loop` sees what the body did before.
  if (stmt.test && stmt.uses_loop) {
    std::vector<Value> kept;
    for (Value& item : items) {
      if (passes(item)) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  heap_.check_items(items.size());
  auto loop = heap_.make<LoopObject>();
  heap_.grow(*loop, items.size() * sizeof(Value));
  for (const Value& item : items) loop->hold(item);
  loop->items = std::move(items);
  const Value loop_value = Value::object(Kind::loop, loop);
  bool completed = false;
  for (std::size_t i = 0; i < loop->items.size(); ++i) {
    heap_.step();
    if (stmt.test && !stmt.uses_loop && !passes(loop->items[i])) continue;
    loop->index = static_cast<std::int64_t>(i);
    const InScope inner(scope_, std::make_shared<Scope>(scope_));
    if (stmt.uses_loop) scope_->set("loop", loop_value);
    assign(*stmt.target, loop->items[i]);
    const Flow flow = exec(stmt.body);
    if (flow == Flow::loop_break) break;
    // The reference counts only bodies that reach their end; a loop left or cut short runs `else`.
    completed = completed || flow == Flow::next;
  }
  if (completed) return Flow::next;
  const InScope inner(scope_, std::make_shared<Scope>(scope_));
  return exec(stmt.otherwise);
}

Interp::Flow Interp::exec_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const Param& param : stmt.macro.params) values.push_back(eval(*param.default_value));
  const InScope inner(scope_, std::make_shared<Scope>(scope_));
  for (std::size_t i = 0; i < values.size(); ++i)
    assign(*stmt.macro.params[i].target, std::move(values[i]));
  return exec(stmt.body);
}

void Interp::exec_set_block(const Stmt& stmt) {
  Value body;
  {
    const InScope inner(scope_, std::make_shared<Scope>(scope_));
    body = heap_.text(capture(stmt.body));
  }
  if (stmt.expr) body = eval_filter(*stmt.expr, &body);
  assign(*stmt.target, std::move(body));
}

void Interp::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::name) {
    scope_->set(target.text, std::move(value));
  } else if (target.kind == ExprKind::attribute) {
    const Value holder = eval(*target.args[0]);
    if (!holder.is(Kind::name_space)) {
      line_ = target.line;
      fail("cannot assign to '" + target.args[0]->text + "." + target.text + "': not a namespace");
    }
    auto& object = holder.as<NamespaceObject>();
    if (Value* old = object.find(target.text)) {
      *old = std::move(value);
    } else {
      object.attributes.emplace_back(target.text, std::move(value));
      heap_.grow(object, sizeof(Value) + 64);
    }
  } else {
    const std::vector<Value> items = iterate(heap_, value);
    if (items.size() != target.args.size()) {
      fail("expected " + std::to_string(target.args.size()) + " values to unpack, found " +
           std::to_string(items.size()));
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.args[i], items[i]);
  }
}

Value Interp::make_macro(const Stmt& stmt) {
  auto macro = heap_.make<CallableObject>();
  macro->type = CallableType::macro;
  macro->name = stmt.macro.name;
  macro->macro = &stmt;
  macro->scope = scope_;
  heap_.pin(macro);
  return Value::object(Kind::callable, std::move(macro));
}

void Interp::exec_call_block(const Stmt& stmt) {
  const Value caller = make_macro(stmt);
  const Value callee = eval(*stmt.expr->args[0]);
  Args args = eval_args(stmt.expr->call);
  args.named.emplace_back("caller", caller);
  print(call(callee, args));
}

Value Interp::call_macro(const CallableObject& macro, const Args& args) {
  const MacroInfo& info = macro.macro->macro;
  const Depth depth(*this);
  const InScope inner(scope_, std::make_shared<Scope>(macro.scope));
  const std::size_t count = info.params.size();
  std::vector<Value> values(std::max(count, args.positional.size()));
  std::vector<bool> given(count, false);
  std::vector<Value> varargs;
  auto kwargs = heap_.make<DictObject>();
  Value caller;
  for (std::size_t i = 0; i < args.positional.size(); ++i) {
    if (i < count) {
      values[i] = args.positional[i];
      given[i] = true;
    } else if (info.takes_varargs) {
      varargs.push_back(args.positional[i]);
    } else {
      fail("macro '" + info.name + "' takes at most " + std::to_string(count) + " arguments");
    }
  }
  for (const auto& [name, value] : args.named) {
    std::size_t i = 0;
    while (i < count && info.params[i].target->text != name) ++i;
    if (i < count && !given[i]) {
      values[i] = value;
      given[i] = true;
    } else if (i == count && name == "caller" && info.takes_caller) {
      caller = value;
    } else if (i == count && info.takes_kwargs) {
      kwargs->set(heap_.data(name), value);
    } else {
      fail("macro '" + info.name + "' has no free parameter '" + name + "'");
    }
  }
  if (info.takes_caller)
    scope_->set("caller",
                caller.is(Kind::undefined) ? heap_.undefined("no caller defined") : caller);
  if (info.takes_kwargs) scope_->set("kwargs", heap_.dict(std::move(kwargs)));
  if (info.takes_varargs) scope_->set("varargs", heap_.tuple(std::move(varargs)));
  for (std::size_t i = 0; i < count; ++i) {
    const Param& param = info.params[i];
    if (!given[i]) {
      values[i] = param.default_value
                      ? eval(*param.default_value)
                      : heap_.undefined("parameter '" + param.target->text + "' was not provided");
    }
    scope_->set(param.target->text, values[i]);
  }
  return heap_.text(capture(macro.macro->body));
}

}  // namespace cairn::text::jinja
