// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "model/text/jinja_callable.hpp"
#include "model/text/jinja_ops.hpp"

namespace cairn::text::jinja {
namespace {

std::vector<Value> view_items(Heap& heap, const ViewObject& view) {
  std::vector<Value> out;
  const auto& entries = view.dict.dict().entries;
  heap.check_items(entries.size());
  out.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    if (view.view == ViewKind::keys) {
      out.push_back(key);
    } else if (view.view == ViewKind::values) {
      out.push_back(value);
    } else {
      out.push_back(heap.tuple({key, value}));
    }
  }
  return out;
}

std::vector<Value> characters(Heap& heap, const OriginText& text) {
  std::vector<Value> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = code_point_bytes(text.view(), at);
    out.push_back(heap.text(text.slice(at, at + n)));
    at += n;
  }
  return out;
}

std::string describe(const Value& v) { return std::string("'") + kind_name(v.kind()) + " object'"; }

Value method(Heap& heap, const Value& self, std::string_view name) {
  auto object = heap.make<CallableObject>();
  object->type = CallableType::method;
  object->name = name;
  object->self = self;
  object->hold(self);
  return Value::object(Kind::callable, std::move(object));
}

// The position a Python index means, or nothing when it is outside.
std::optional<std::size_t> position(std::int64_t index, std::size_t size) {
  const auto n = static_cast<std::int64_t>(size);
  if (index < 0) index += n;
  if (index < 0 || index >= n) return std::nullopt;
  return static_cast<std::size_t>(index);
}

struct SliceBounds {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
  std::int64_t count;
};

std::int64_t bound(const Value& v, std::int64_t otherwise) {
  if (v.is(Kind::none)) return otherwise;
  if (!is_integer(v))
    fail(std::string("slice indices must be integers, not '") + kind_name(v.kind()) + "'");
  return v.as_int();
}

SliceBounds slice_bounds(const Value& start, const Value& stop, const Value& step,
                         std::size_t size) {
  const auto n = static_cast<std::int64_t>(size);
  const std::int64_t by = bound(step, 1);
  if (by == 0) fail("slice step cannot be zero");
  const bool back = by < 0;
  const auto place = [&](const Value& v, std::int64_t otherwise) {
    if (v.is(Kind::none)) return otherwise;
    std::int64_t at = bound(v, 0);
    if (at < 0) at = at < -n ? -1 - n : at;
    if (at < 0) at += n;
    return std::clamp(at, back ? std::int64_t{-1} : std::int64_t{0}, back ? n - 1 : n);
  };
  const std::int64_t from = place(start, back ? n - 1 : 0);
  const std::int64_t to = place(stop, back ? -1 : n);
  std::int64_t count = 0;
  if (back && to < from) count = (from - to - 1) / (by == INT64_MIN ? INT64_MAX : -by) + 1;
  if (!back && from < to) count = (to - from - 1) / by + 1;
  return {from, to, by, count};
}

Value slice_text(Heap& heap, const OriginText& text, const Value& start, const Value& stop,
                 const Value& step) {
  heap.step(text.size() / 64);
  const bool ascii = text.length() == text.size();
  const std::vector<std::size_t> offsets =
      ascii ? std::vector<std::size_t>{} : code_point_offsets(text.view());
  const auto at = [&](std::int64_t i) {
    return ascii ? static_cast<std::size_t>(i) : offsets[static_cast<std::size_t>(i)];
  };
  const SliceBounds s = slice_bounds(start, stop, step, ascii ? text.size() : offsets.size() - 1);
  OriginText out;
  if (s.step == 1) {
    if (s.count > 0) out = text.slice(at(s.start), at(s.start + s.count));
  } else {
    for (std::int64_t k = 0; k < s.count; ++k)
      out.append(text, at(s.start + k * s.step), at(s.start + k * s.step + 1));
  }
  return heap.text(std::move(out));
}

Value loop_attribute(Heap& heap, const Value& base, std::string_view name) {
  const auto& loop = base.as<LoopObject>();
  const auto n = static_cast<std::int64_t>(loop.items.size());
  const std::int64_t i = loop.index;
  if (name == "index") return Value::integer(i + 1);
  if (name == "index0") return Value::integer(i);
  if (name == "revindex") return Value::integer(n - i);
  if (name == "revindex0") return Value::integer(n - i - 1);
  if (name == "first") return Value::boolean(i == 0);
  if (name == "last") return Value::boolean(i + 1 == n);
  if (name == "length") return Value::integer(n);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem") {
    return i > 0 ? loop.items[static_cast<std::size_t>(i - 1)]
                 : heap.undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return i + 1 < n ? loop.items[static_cast<std::size_t>(i + 1)]
                     : heap.undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") return method(heap, base, name);
  return heap.undefined("'loop' has no attribute '" + std::string(name) + "'");
}

}  // namespace

void fail_undefined(const Value& value) {
  if (value.has_object()) fail(value.as<UndefinedObject>().why);
  fail("value is undefined");
}

bool is_iterable(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view:
    case Kind::iterator:
      return true;
    default:
      return false;
  }
}

std::optional<std::size_t> length_of(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return v.text().length();
    case Kind::list:
    case Kind::tuple:
      return v.items().size();
    case Kind::dict:
      return v.dict().entries.size();
    case Kind::range:
      return static_cast<std::size_t>(v.as<RangeObject>().count);
    case Kind::view:
      return v.as<ViewObject>().dict.dict().entries.size();
    case Kind::loop:
      return v.as<LoopObject>().items.size();
    default:
      return std::nullopt;
  }
}

std::vector<Value> iterate(Heap& heap, const Value& v) {
  heap.step(length_of(v).value_or(0) / 8);
  switch (v.kind()) {
    case Kind::undefined:
      return {};
    case Kind::string:
      return characters(heap, v.text());
    case Kind::list:
    case Kind::tuple:
      return v.items();
    case Kind::dict: {
      ViewObject keys;
      keys.dict = v;
      keys.view = ViewKind::keys;
      return view_items(heap, keys);
    }
    case Kind::view:
      return view_items(heap, v.as<ViewObject>());
    case Kind::iterator: {
      auto& iterator = v.as<IteratorObject>();
      const auto at = static_cast<std::ptrdiff_t>(iterator.next);
      iterator.next = iterator.items.size();
      return {iterator.items.begin() + at, iterator.items.end()};
    }
    case Kind::range: {
      const auto& range = v.as<RangeObject>();
      if (static_cast<std::size_t>(range.count) > heap.limits().max_range_items) {
        fail("range() of more than " + std::to_string(heap.limits().max_range_items) + " items");
      }
      std::vector<Value> out;
      out.reserve(static_cast<std::size_t>(range.count));
      for (std::int64_t k = 0; k < range.count; ++k)
        out.push_back(Value::integer(range.start + k * range.step));
      return out;
    }
    default:
      fail(std::string("'") + kind_name(v.kind()) + "' object is not iterable");
  }
}

Value attribute(Heap& heap, const Value& base, std::string_view name) {
  if (base.is(Kind::undefined)) fail_undefined(base);
  if (name.substr(0, 2) == "__") {
    return heap.undefined("access to attribute '" + std::string(name) + "' is not allowed");
  }
  if (base.is(Kind::loop)) return loop_attribute(heap, base, name);
  if (has_method(base.kind(), name)) return method(heap, base, name);
  if (base.is(Kind::dict)) {
    if (const Value* found = base.dict().find(name)) return *found;
  } else if (base.is(Kind::name_space)) {
    if (const Value* found = base.as<NamespaceObject>().find(name)) return *found;
  } else if (base.is(Kind::callable) && name == "name") {
    return heap.data(base.as<CallableObject>().name);
  }
  return heap.undefined(describe(base) + " has no attribute '" + std::string(name) + "'");
}

Value item(Heap& heap, const Value& base, const Value& key) {
  if (base.is(Kind::undefined)) fail_undefined(base);
  if (base.is(Kind::dict)) {
    const bool hashable = !key.is(Kind::list) && !key.is(Kind::dict);
    const Value* found = hashable ? base.dict().find(key) : nullptr;
    if (found != nullptr) return *found;
  } else if (is_integer(key)) {
    const auto size = length_of(base);
    const auto at = size && !base.is(Kind::view) && !base.is(Kind::loop)
                        ? position(key.as_int(), *size)
                        : std::nullopt;
    if (at && (base.is(Kind::list) || base.is(Kind::tuple))) return base.items()[*at];
    if (at && base.is(Kind::range)) {
      const auto& range = base.as<RangeObject>();
      return Value::integer(range.start + static_cast<std::int64_t>(*at) * range.step);
    }
    if (at && base.is(Kind::string)) {
      const auto i = Value::integer(static_cast<std::int64_t>(*at));
      return slice(heap, base, i, Value::integer(i.as_int() + 1), Value::none());
    }
  }
  if (key.is(Kind::string)) return attribute(heap, base, key.view());
  return heap.undefined(describe(base) + " has no such element");
}

Value slice(Heap& heap, const Value& base, const Value& start, const Value& stop,
            const Value& step) {
  switch (base.kind()) {
    case Kind::string:
      return slice_text(heap, base.text(), start, stop, step);
    case Kind::list:
    case Kind::tuple: {
      const SliceBounds s = slice_bounds(start, stop, step, base.items().size());
      heap.check_items(static_cast<std::size_t>(s.count));
      std::vector<Value> out;
      out.reserve(static_cast<std::size_t>(s.count));
      for (std::int64_t k = 0; k < s.count; ++k)
        out.push_back(base.items()[static_cast<std::size_t>(s.start + k * s.step)]);
      return heap.list(std::move(out), base.kind());
    }
    case Kind::range: {
      const auto& range = base.as<RangeObject>();
      const SliceBounds s = slice_bounds(start, stop, step, static_cast<std::size_t>(range.count));
      auto out = heap.make<RangeObject>();
      out->start = range.start + s.start * range.step;
      out->count = s.count;
      out->stop = range.start + s.stop * range.step;
      if (__builtin_mul_overflow(range.step, s.step, &out->step)) fail("slice step is too large");
      return Value::object(Kind::range, std::move(out));
    }
    case Kind::undefined:
      fail_undefined(base);
    default:
      fail(std::string("'") + kind_name(base.kind()) + "' object cannot be sliced");
  }
}

}  // namespace cairn::text::jinja
