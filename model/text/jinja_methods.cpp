// SPDX-License-Identifier: Apache-2.0
// Arguments of builtins, and the methods of everything but strings.
#include <algorithm>

#include "model/text/jinja_callable.hpp"
#include "model/text/jinja_ops.hpp"
#include "model/text/jinja_string_methods.hpp"

namespace cairn::text::jinja {
namespace {

constexpr std::string_view kDictMethods[] = {"get",     "items",    "keys",      "values",
                                             "copy",    "pop",      "clear",     "update",
                                             "popitem", "fromkeys", "setdefault"};
constexpr std::string_view kListMethods[] = {"index",  "count",  "copy",   "append",
                                             "extend", "insert", "pop",    "remove",
                                             "sort",   "clear",  "reverse"};
constexpr std::string_view kChanging[] = {"pop",        "clear",  "update", "popitem",
                                          "setdefault", "append", "extend", "insert",
                                          "remove",     "sort",   "reverse"};

bool any_of(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value call_dict_method(Heap& heap, const Value& self, std::string_view name, const Args& args) {
  if (name == "get") {
    const Bound bound("get", args, {"key", "default"}, 1);
    const Value* found = self.dict().find(bound.at(0));
    return found != nullptr ? *found : bound.given(1) ? bound.at(1) : Value::none();
  }
  const Bound bound(name, args, {});
  if (name == "copy") return self;
  if (name != "items" && name != "keys" && name != "values") {
    fail("the method '" + std::string(name) + "' of dict is not supported");
  }
  auto view = heap.make<ViewObject>();
  view->dict = self;
  view->hold(self);
  view->view = name == "items"  ? ViewKind::items
               : name == "keys" ? ViewKind::keys
                                : ViewKind::values;
  return Value::object(Kind::view, std::move(view));
}

Value call_list_method(Heap& heap, const Value& self, std::string_view name, const Args& args) {
  if (name == "copy") {
    const Bound bound(name, args, {});
    return self;
  }
  const Bound bound(name, args, {"value"}, 1);
  const std::vector<Value> items = iterate(heap, self);
  const auto matches = [&](const Value& v) { return equal(heap, v, bound.at(0)); };
  if (name == "count") return Value::integer(std::count_if(items.begin(), items.end(), matches));
  const auto at = std::find_if(items.begin(), items.end(), matches);
  if (at == items.end()) fail("index(): the value is not in the list");
  return Value::integer(at - items.begin());
}

Value call_loop_method(Heap& heap, const Value& self, std::string_view name, const Args& args) {
  auto& loop = self.as<LoopObject>();
  if (!args.named.empty()) fail("loop." + std::string(name) + "() takes no named arguments");
  if (name == "cycle") {
    if (args.positional.empty()) fail("no items for cycling given");
    return args.positional[static_cast<std::size_t>(loop.index) % args.positional.size()];
  }
  const Value now = heap.tuple(args.positional);
  const bool same = loop.last_changed.is(Kind::tuple) && equal(heap, loop.last_changed, now);
  loop.last_changed = now;
  heap.pin(self.shared());  // it may now hold itself
  return Value::boolean(!same);
}

}  // namespace

Bound::Bound(std::string_view what, const Args& args, std::initializer_list<std::string_view> names,
             std::size_t required)
    : what_(what), given_(names.size(), nullptr) {
  if (args.positional.size() > names.size()) {
    fail(what_ + " takes at most " + std::to_string(names.size()) + " arguments");
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) given_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) fail(what_ + " has no parameter '" + name + "'");
    if (given_[at] != nullptr) fail(what_ + " got '" + name + "' twice");
    given_[at] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (given_[i] == nullptr)
      fail(what_ + " needs the argument '" + std::string(names.begin()[i]) + "'");
  }
}

std::int64_t Bound::integer(std::size_t i, std::int64_t otherwise) const {
  if (given_[i] == nullptr) return otherwise;
  if (given_[i]->is(Kind::undefined)) fail_undefined(*given_[i]);
  if (!is_integer(*given_[i]))
    fail(what_ + " needs an integer, not " + kind_name(given_[i]->kind()));
  return given_[i]->as_int();
}

const OriginText& Bound::text(std::size_t i) const {
  if (given_[i]->is(Kind::undefined)) fail_undefined(*given_[i]);
  if (!given_[i]->is(Kind::string))
    fail(what_ + " needs a string, not " + kind_name(given_[i]->kind()));
  return given_[i]->text();
}

bool has_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::string:
      return is_string_method(name);
    case Kind::dict:
      return any_of(kDictMethods, name);
    case Kind::list:
      return any_of(kListMethods, name);
    case Kind::tuple:
    case Kind::range:
      return name == "index" || name == "count";
    default:
      return false;
  }
}

Value call_method(Heap& heap, const Value& self, std::string_view name, const Args& args) {
  if (self.is(Kind::string)) return call_string_method(heap, self.text(), name, args);
  if (self.is(Kind::loop)) return call_loop_method(heap, self, name, args);
  if (any_of(kChanging, name)) {
    fail("'" + std::string(name) + "' would change a " + kind_name(self.kind()) +
         ", which templates may not");
  }
  if (self.is(Kind::dict)) return call_dict_method(heap, self, name, args);
  return call_list_method(heap, self, name, args);
}

}  // namespace cairn::text::jinja
