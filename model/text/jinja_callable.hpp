// SPDX-License-Identifier: Apache-2.0
// Values that exist only while a template runs: scopes, macros, methods, loops.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/text/jinja_ast.hpp"
#include "model/text/jinja_value.hpp"

namespace cairn::text::jinja {

/// Names bound by one block; looked up outwards.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      for (const auto& [key, value] : scope->names) {
        if (key == name) return &value;
      }
    }
    return nullptr;
  }
  void set(const std::string& name, Value value) {
    for (auto& [key, old] : names) {
      if (key == name) {
        old = std::move(value);
        return;
      }
    }
    names.emplace_back(name, std::move(value));
  }

  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;
};

enum class CallableType : std::uint8_t { macro, method, builtin };

struct CallableObject : Object {
  CallableType type = CallableType::builtin;
  std::string name;
  Value self;                    // method: what it is bound to
  const Stmt* macro = nullptr;   // macro
  std::shared_ptr<Scope> scope;  // macro: where it was defined
  void unlink() override { scope.reset(); }
};

struct LoopObject : Object {
  std::vector<Value> items;
  std::int64_t index = 0;
  Value last_changed;  // what loop.changed() saw; a tuple
  void unlink() override { last_changed = {}; }
};

}  // namespace cairn::text::jinja
