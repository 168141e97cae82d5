// SPDX-License-Identifier: Apache-2.0
// Values of a template: Python's types as far as templates can meet them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "model/text/chat.hpp"
#include "model/text/jinja_text.hpp"

namespace cairn::text::jinja {

/// Thrown inside the interpreter only; Template turns it into an Error or a LoadError.
struct TemplateError {
  std::string message;
  bool raised = false;  // by the template itself, with raise_exception
  int line = 0;         // 0: where the interpreter stands
};
[[noreturn]] void fail(std::string message);

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  big_integer,  // more than 64 bits: can be printed, not computed with
  real,
  string,
  list,
  tuple,
  dict,
  range,
  view,      // dict.items() and the like
  iterator,  // what lazy filters give; can be walked once
  name_space,
  loop,
  callable
};
/// Python's name of a kind, for error messages.
const char* kind_name(Kind kind);

class Heap;
class Value;

/// What a value refers to. Its memory counts against the heap until it dies.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object();
  /// Drops references that may form a cycle.
  virtual void unlink() {}
  /// Nesting of what it holds is limited: everything that walks or destroys values recurses.
  void hold(const Value& child);
  int height() const { return height_; }

 private:
  friend class Heap;
  Heap* heap_ = nullptr;
  std::size_t bytes_ = 0;
  int height_ = 0;
};

struct StringObject;
struct ListObject;
struct DictObject;

/// A value; cheap to copy, objects are shared. Everything but namespaces is immutable once built.
class Value {
 public:
  Value() = default;  // undefined
  static Value none();
  static Value boolean(bool b);
  static Value integer(std::int64_t i);
  static Value real(double d);
  static Value object(Kind kind, std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool as_bool() const { return integer_ != 0; }
  std::int64_t as_int() const { return integer_; }
  double as_real() const { return real_; }
  template <class T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  bool has_object() const { return object_ != nullptr; }
  const Object* identity() const { return object_.get(); }
  const std::shared_ptr<Object>& shared() const { return object_; }
  const OriginText& text() const;  // of strings and big integers
  std::string_view view() const { return text().view(); }
  const std::vector<Value>& items() const;  // of lists, tuples
  const DictObject& dict() const;

 private:
  Kind kind_ = Kind::undefined;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

struct UndefinedObject : Object {
  std::string why;  // "'x' is undefined"
};

struct StringObject : Object {
  OriginText text;
};

struct ListObject : Object {
  std::vector<Value> items;
};

/// Insertion-ordered; keys compare as in Python (1, 1.0 and True are one key).
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> entries;

  void set(const Value& key, Value value);
  const Value* find(const Value& key) const;  // fails on an unhashable key
  const Value* find(std::string_view key) const;

 private:
  std::unordered_map<std::string, std::size_t> index_;  // for more than a few entries
};

struct RangeObject : Object {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

enum class ViewKind : std::uint8_t { keys, values, items };
struct ViewObject : Object {
  Value dict;
  ViewKind view = ViewKind::items;
};

struct IteratorObject : Object {
  std::vector<Value> items;
  std::size_t next = 0;
  const char* type = "generator";
};

struct NamespaceObject : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  void unlink() override { attributes.clear(); }
  Value* find(std::string_view name);
};

/// Creates objects and keeps the accounts of one rendering: steps, memory, sizes.
class Heap {
 public:
  explicit Heap(const RenderLimits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();

  const RenderLimits& limits() const { return limits_; }
  void step(std::size_t n = 1) {
    steps_ += n;
    if (steps_ > limits_.max_steps) too_many_steps();
  }
  /// Fails when a string of this size would be too large; counts the work of making it.
  void check_string(std::size_t bytes);
  /// Fails when a list of this many items would not fit; counts the work of making it.
  void check_items(std::size_t count);

  Value text(OriginText text);
  Value data(std::string bytes) { return text(OriginText(std::move(bytes), Origin::data)); }
  Value list(std::vector<Value> items, Kind kind = Kind::list);
  Value tuple(std::vector<Value> items) { return list(std::move(items), Kind::tuple); }
  Value dict(std::shared_ptr<DictObject> dict);
  Value iterator(std::vector<Value> items, const char* type = "generator");
  Value undefined(std::string why);
  Value from_json(const json::Value& value, Origin origin);

  template <class T>
  std::shared_ptr<T> make() {
    auto object = std::make_shared<T>();
    adopt(*object, sizeof(T) + 32);
    return object;
  }
  /// Keeps an object that may be part of a cycle, to be unlinked at the end.
  void pin(std::shared_ptr<Object> object) { pinned_.push_back(std::move(object)); }
  /// Counts `bytes` more for an object.
  void grow(Object& object, std::size_t bytes);

 private:
  friend class Object;
  void adopt(Object& object, std::size_t bytes);
  [[noreturn]] void too_many_steps() const;
  [[noreturn]] void too_much_memory() const;

  RenderLimits limits_;
  std::size_t steps_ = 0;
  std::size_t memory_ = 0;
  std::vector<std::shared_ptr<Object>> pinned_;
};

/// A template literal: lives in the syntax tree, belongs to no heap.
Value literal(std::string bytes);

}  // namespace cairn::text::jinja
