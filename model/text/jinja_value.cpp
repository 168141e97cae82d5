// SPDX-License-Identifier: Apache-2.0
#include "model/text/jinja_value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cairn::text::jinja {
namespace {

constexpr std::size_t kIndexFrom = 12;  // entries from which a dict is searched by hash
constexpr std::size_t kMaxKeyBytes = 1U << 20;
constexpr int kMaxHeight = 150;  // nesting of lists and dicts; everything that walks them recurses
const OriginText kNoText;
const std::vector<Value> kNoItems;

// One spelling per key, as Python's equality groups them.
std::string hash_key(const Value& key) {
  switch (key.kind()) {
    case Kind::string:
      return "s" + key.text().bytes();
    case Kind::boolean:
    case Kind::integer:
      return "i" + std::to_string(key.as_int());
    case Kind::big_integer:
      return "i" + key.text().bytes();
    case Kind::real: {
      const double d = key.as_real();
      if (d == std::floor(d) && std::fabs(d) < 9e18) {
        return "i" + std::to_string(static_cast<std::int64_t>(d));
      }
      return "r" + std::to_string(d);
    }
    case Kind::none:
      return "n";
    case Kind::undefined:
      return "u";
    case Kind::tuple: {
      std::string out = "t";
      for (const Value& item : key.items()) {
        const std::string part = hash_key(item);
        out += std::to_string(part.size()) + ":" + part;
        if (out.size() > kMaxKeyBytes) fail("a tuple is too large for a key");
      }
      return out;
    }
    case Kind::range:
    case Kind::iterator:
    case Kind::name_space:
    case Kind::loop:
    case Kind::callable:
      return "o" + std::to_string(reinterpret_cast<std::uintptr_t>(key.identity()));
    default:
      fail(std::string("unhashable type: '") + kind_name(key.kind()) + "'");
  }
}

}  // namespace

void fail(std::string message) { throw TemplateError{std::move(message)}; }

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {"Undefined", "NoneType",  "bool",        "int",
                                    "int",       "float",     "str",         "list",
                                    "tuple",     "dict",      "range",       "dict view",
                                    "generator", "namespace", "LoopContext", "function"};
  return kNames[static_cast<std::size_t>(kind)];
}

Object::~Object() {
  if (heap_ != nullptr) heap_->memory_ -= bytes_;
}

void Object::hold(const Value& child) {
  if (!child.has_object()) return;
  height_ = std::max(height_, child.identity()->height() + 1);
  if (height_ > kMaxHeight) fail("values are nested too deeply");
}

Value Value::none() {
  Value v;
  v.kind_ = Kind::none;
  return v;
}

Value Value::boolean(bool b) {
  Value v;
  v.kind_ = Kind::boolean;
  v.integer_ = b ? 1 : 0;
  return v;
}

Value Value::integer(std::int64_t i) {
  Value v;
  v.kind_ = Kind::integer;
  v.integer_ = i;
  return v;
}

Value Value::real(double d) {
  Value v;
  v.kind_ = Kind::real;
  v.real_ = d;
  return v;
}

Value Value::object(Kind kind, std::shared_ptr<Object> object) {
  Value v;
  v.kind_ = kind;
  v.object_ = std::move(object);
  return v;
}

const OriginText& Value::text() const {
  return kind_ == Kind::string || kind_ == Kind::big_integer ? as<StringObject>().text : kNoText;
}

const std::vector<Value>& Value::items() const {
  return kind_ == Kind::list || kind_ == Kind::tuple ? as<ListObject>().items : kNoItems;
}

const DictObject& Value::dict() const { return as<DictObject>(); }

void DictObject::set(const Value& key, Value value) {
  hold(key);
  hold(value);
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  entries.emplace_back(key, std::move(value));
  if (entries.size() == kIndexFrom) {
    for (std::size_t i = 0; i < entries.size(); ++i) index_.emplace(hash_key(entries[i].first), i);
  } else if (entries.size() > kIndexFrom) {
    index_.emplace(hash_key(key), entries.size() - 1);
  }
}

const Value* DictObject::find(const Value& key) const {
  if (key.is(Kind::string)) return find(key.view());
  const std::string wanted = hash_key(key);
  for (const auto& [k, v] : entries) {
    if (!k.is(Kind::string) && hash_key(k) == wanted) return &v;
  }
  return nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto it = index_.find("s" + std::string(key));
    return it == index_.end() ? nullptr : &entries[it->second].second;
  }
  for (const auto& [k, v] : entries) {
    if (k.is(Kind::string) && k.view() == key) return &v;
  }
  return nullptr;
}

Value* NamespaceObject::find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

Heap::~Heap() {
  for (const auto& object : pinned_) object->unlink();
  pinned_.clear();
}

void Heap::too_many_steps() const {
  fail("takes more than " + std::to_string(limits_.max_steps) + " steps");
}

void Heap::too_much_memory() const {
  fail("needs more than " + std::to_string(limits_.max_memory_bytes) + " bytes of memory");
}

void Heap::adopt(Object& object, std::size_t bytes) {
  object.heap_ = this;
  grow(object, bytes);
}

void Heap::grow(Object& object, std::size_t bytes) {
  object.bytes_ += bytes;
  memory_ += bytes;
  if (memory_ > limits_.max_memory_bytes) too_much_memory();
}

void Heap::check_string(std::size_t bytes) {
  if (bytes > limits_.max_string_bytes) {
    fail("a string exceeds " + std::to_string(limits_.max_string_bytes) + " bytes");
  }
  if (bytes > limits_.max_memory_bytes - std::min(memory_, limits_.max_memory_bytes)) {
    too_much_memory();
  }
  step(bytes / 64);
}

void Heap::check_items(std::size_t count) {
  if (count >
      (limits_.max_memory_bytes - std::min(memory_, limits_.max_memory_bytes)) / sizeof(Value)) {
    too_much_memory();
  }
  step(count / 8);
}

Value Heap::text(OriginText text) {
  check_string(text.size());
  auto object = make<StringObject>();
  object->text = std::move(text);
  grow(*object, object->text.memory());
  return Value::object(Kind::string, std::move(object));
}

Value Heap::list(std::vector<Value> items, Kind kind) {
  check_items(items.size());
  auto object = make<ListObject>();
  for (const Value& item : items) object->hold(item);
  object->items = std::move(items);
  grow(*object, object->items.capacity() * sizeof(Value));
  return Value::object(kind, std::move(object));
}

Value Heap::dict(std::shared_ptr<DictObject> dict) {
  check_items(dict->entries.size() * 2);
  grow(*dict, dict->entries.capacity() * sizeof(dict->entries[0]) * 2);
  return Value::object(Kind::dict, std::move(dict));
}

Value Heap::iterator(std::vector<Value> items, const char* type) {
  check_items(items.size());
  auto object = make<IteratorObject>();
  for (const Value& item : items) object->hold(item);
  object->items = std::move(items);
  object->type = type;
  grow(*object, object->items.capacity() * sizeof(Value));
  return Value::object(Kind::iterator, std::move(object));
}

Value Heap::undefined(std::string why) {
  auto object = make<UndefinedObject>();
  object->why = std::move(why);
  return Value::object(Kind::undefined, std::move(object));
}

Value Heap::from_json(const json::Value& value, Origin origin) {
  step();
  switch (value.kind()) {
    case json::Kind::null:
      return Value::none();
    case json::Kind::boolean:
      return Value::boolean(value.as_bool());
    case json::Kind::number: {
      const std::string& digits = value.text();
      if (!value.is_integer()) return Value::real(value.as_double());
      std::int64_t i = 0;
      const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), i);
      if (ec == std::errc{}) return Value::integer(i);
      Value text = this->text(OriginText(digits, origin));
      return Value::object(Kind::big_integer, text.shared());
    }
    case json::Kind::string:
      return text(OriginText(value.text(), origin));
    case json::Kind::array: {
      std::vector<Value> items;
      items.reserve(value.items().size());
      for (const json::Value& item : value.items()) items.push_back(from_json(item, origin));
      return list(std::move(items));
    }
    case json::Kind::object: {
      auto dict = make<DictObject>();
      for (const auto& [key, member] : value.members()) {
        dict->set(text(OriginText(key, origin)), from_json(member, origin));
      }
      return this->dict(std::move(dict));
    }
  }
  return {};
}

Value literal(std::string bytes) {
  auto object = std::make_shared<StringObject>();
  object->text = OriginText(std::move(bytes), Origin::from_template);
  return Value::object(Kind::string, std::move(object));
}

}  // namespace cairn::text::jinja
