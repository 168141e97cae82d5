// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <functional>

#include "model/text/jinja_filters.hpp"

namespace cairn::text::jinja {
namespace {

Value length(Interp&, const Value& v, const Args& args) {
  const Bound bound("length", args, {});
  const auto n = length_of(v);
  if (!n) fail(std::string("object of type '") + kind_name(v.kind()) + "' has no length");
  return Value::integer(static_cast<std::int64_t>(*n));
}

// "a.b.0" as the keys to follow one after the other.
std::vector<Value> path_of(Interp& in, const Value& attribute) {
  if (!attribute.is(Kind::string)) return {attribute};
  std::vector<Value> path;
  const OriginText& text = attribute.text();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t dot = std::min(text.view().find('.', at), text.size());
    const std::string_view part = text.view().substr(at, dot - at);
    std::int64_t index = 0;
    const bool digits =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos &&
        std::from_chars(part.data(), part.data() + part.size(), index).ec == std::errc{};
    path.push_back(digits ? Value::integer(index) : in.heap().text(text.slice(at, dot)));
    at = dot + 1;
  }
  return path;
}

Value follow(Interp& in, Value v, const std::vector<Value>& path,
             const Value* otherwise = nullptr) {
  for (const Value& key : path) {
    v = item(in.heap(), v, key);
    if (otherwise != nullptr && v.is(Kind::undefined)) v = *otherwise;
  }
  return v;
}

Value fold_case(Interp& in, const Value& v, bool case_sensitive) {
  if (case_sensitive || !v.is(Kind::string)) return v;
  return in.heap().text(change_case(v.text(), "lower"));
}

Value join_filter(Interp& in, const Value& v, const Args& args) {
  const Bound bound("join", args, {"d", "attribute"});
  std::vector<Value> items = iterate(in.heap(), v);
  if (bound.given(1) && !bound.at(1).is(Kind::none)) {
    const auto path = path_of(in, bound.at(1));
    for (Value& item : items) item = follow(in, item, path);
  }
  const OriginText separator = bound.given(0) ? in.text(bound.at(0)) : OriginText{};
  return in.heap().text(join(in.heap(), separator, items, false));
}

Value first(Interp& in, const Value& v, const Args& args) {
  const Bound bound("first", args, {});
  if (v.is(Kind::iterator)) {
    auto& iterator = v.as<IteratorObject>();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return in.heap().undefined("no first item, the sequence was empty");
  }
  if (v.is(Kind::string) && !v.text().empty()) {
    return in.heap().text(v.text().slice(0, code_point_bytes(v.view(), 0)));
  }
  const auto items = iterate(in.heap(), v);
  return items.empty() ? in.heap().undefined("no first item, the sequence was empty")
                       : items.front();
}

void need_reversible(const Value& v) {
  if (v.is(Kind::iterator)) fail("a generator cannot be walked backwards");
}

Value last(Interp& in, const Value& v, const Args& args) {
  const Bound bound("last", args, {});
  need_reversible(v);
  const auto items = iterate(in.heap(), v);
  return items.empty() ? in.heap().undefined("no last item, the sequence was empty") : items.back();
}

Value list(Interp& in, const Value& v, const Args& args) {
  const Bound bound("list", args, {});
  return in.heap().list(iterate(in.heap(), v));
}

Value reverse(Interp& in, const Value& v, const Args& args) {
  const Bound bound("reverse", args, {});
  if (v.is(Kind::string))
    return slice(in.heap(), v, Value::none(), Value::none(), Value::integer(-1));
  std::vector<Value> items = iterate(in.heap(), v);
  std::reverse(items.begin(), items.end());
  if (v.is(Kind::iterator)) return in.heap().list(std::move(items));
  return in.heap().iterator(std::move(items), "reversed iterator");
}

const Value& need_dict(const Value& v) {
  if (v.is(Kind::undefined)) fail_undefined(v);
  if (!v.is(Kind::dict)) fail("Can only get item pairs from a mapping.");
  return v;
}

Value items(Interp& in, const Value& v, const Args& args) {
  const Bound bound("items", args, {});
  std::vector<Value> out;
  if (!v.is(Kind::undefined)) {
    for (const auto& [key, value] : need_dict(v).dict().entries)
      out.push_back(in.heap().tuple({key, value}));
  }
  return in.heap().iterator(std::move(out));
}

// Sorts values by keys of the same number; stable, also when descending.
Value sorted(Interp& in, std::vector<Value> values, const std::vector<Value>& keys,
             bool descending) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return descending ? less(in.heap(), keys[b], keys[a]) : less(in.heap(), keys[a], keys[b]);
  });
  std::vector<Value> out;
  out.reserve(values.size());
  for (const std::size_t i : order) out.push_back(std::move(values[i]));
  return in.heap().list(std::move(out));
}

Value dictsort(Interp& in, const Value& v, const Args& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.given(1) ? bound.text(1).view() : "key";
  if (by != "key" && by != "value") fail("dictsort: 'by' must be \"key\" or \"value\"");
  std::vector<Value> values;
  std::vector<Value> keys;
  for (const auto& [key, value] : need_dict(v).dict().entries) {
    values.push_back(in.heap().tuple({key, value}));
    keys.push_back(fold_case(in, by == "key" ? key : value, bound.flag(0, false)));
  }
  return sorted(in, std::move(values), keys, bound.flag(2, false));
}

Value sort(Interp& in, const Value& v, const Args& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::vector<Value>> paths;
  if (!bound.given(2) || bound.at(2).is(Kind::none)) {
    paths.emplace_back();
  } else if (bound.at(2).is(Kind::string)) {
    const Value names = call_method(in.heap(), bound.at(2), "split", {{literal(",")}, {}});
    for (const Value& name : names.items()) paths.push_back(path_of(in, name));
  } else {
    paths.push_back(path_of(in, bound.at(2)));
  }
  std::vector<Value> values = iterate(in.heap(), v);
  std::vector<Value> keys;
  for (const Value& value : values) {
    std::vector<Value> key;
    for (const auto& path : paths)
      key.push_back(fold_case(in, follow(in, value, path), bound.flag(1, false)));
    keys.push_back(in.heap().list(std::move(key)));
  }
  return sorted(in, std::move(values), keys, bound.flag(0, false));
}

// The key functions of unique, min, max: (case_sensitive, attribute).
Value key_of(Interp& in, const Value& v, const Bound& bound) {
  const bool given = bound.given(1) && !bound.at(1).is(Kind::none);
  return fold_case(in, given ? follow(in, v, path_of(in, bound.at(1))) : v, bound.flag(0, false));
}

Value unique(Interp& in, const Value& v, const Args& args) {
  const Bound bound("unique", args, {"case_sensitive", "attribute"});
  auto seen = in.heap().make<DictObject>();
  std::vector<Value> out;
  for (const Value& item : iterate(in.heap(), v)) {
    const Value key = key_of(in, item, bound);
    in.heap().step();
    if (seen->find(key) != nullptr) continue;
    seen->set(key, Value::none());
    out.push_back(item);
  }
  return in.heap().iterator(std::move(out));
}

Value extreme(Interp& in, const Value& v, const Args& args, const char* name, bool largest) {
  const Bound bound(name, args, {"case_sensitive", "attribute"});
  const std::vector<Value> items = iterate(in.heap(), v);
  if (items.empty()) return in.heap().undefined("no aggregated item, the sequence was empty");
  std::size_t best = 0;
  Value best_key = key_of(in, items[0], bound);
  for (std::size_t i = 1; i < items.size(); ++i) {
    const Value key = key_of(in, items[i], bound);
    if (largest ? less(in.heap(), best_key, key) : less(in.heap(), key, best_key)) {
      best = i;
      best_key = key;
    }
  }
  return items[best];
}

Value sum(Interp& in, const Value& v, const Args& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  Value total = bound.given(1) ? bound.at(1) : Value::integer(0);
  if (total.is(Kind::string)) fail("sum cannot add strings; use join");
  const bool given = bound.given(0) && !bound.at(0).is(Kind::none);
  const auto path = given ? path_of(in, bound.at(0)) : std::vector<Value>{};
  for (const Value& item : iterate(in.heap(), v))
    total = binary(in.heap(), "+", total, follow(in, item, path));
  return total;
}

Value map(Interp& in, const Value& v, const Args& args) {
  std::vector<Value> out;
  if (!truth(v)) return in.heap().iterator({});
  std::function<Value(const Value&)> apply;
  Args rest;
  std::vector<Value> path;
  std::string name;
  const Value* otherwise = nullptr;
  if (args.positional.empty()) {
    const Bound bound("map", args, {"attribute", "default"});
    if (!bound.given(0)) fail("map needs a filter or an attribute");
    path = path_of(in, bound.at(0));
    if (bound.given(1) && !bound.at(1).is(Kind::none)) otherwise = bound.get(1);
    apply = [&](const Value& item) { return follow(in, item, path, otherwise); };
  } else {
    if (!args.positional[0].is(Kind::string)) fail("map needs the name of a filter");
    name = args.positional[0].text().bytes();
    rest = {{args.positional.begin() + 1, args.positional.end()}, args.named};
    apply = [&](const Value& item) { return in.filter(name, item, rest); };
  }
  for (const Value& item : iterate(in.heap(), v)) {
    in.heap().step();
    out.push_back(apply(item));
  }
  return in.heap().iterator(std::move(out));
}

Value select(Interp& in, const Value& v, const Args& args, bool by_attribute, bool wanted) {
  if (!truth(v)) return in.heap().iterator({});
  const std::size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip) fail("the name of an attribute is missing");
  const auto path = by_attribute ? path_of(in, args.positional[0]) : std::vector<Value>{};
  const bool has_test = args.positional.size() > skip;
  std::string name;
  Args rest;
  if (has_test) {
    if (!args.positional[skip].is(Kind::string)) fail("the name of a test must be a string");
    name = args.positional[skip].text().bytes();
    rest = {
        {args.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1, args.positional.end()},
        args.named};
  }
  std::vector<Value> out;
  for (const Value& item : iterate(in.heap(), v)) {
    in.heap().step();
    const Value subject = follow(in, item, path);
    if ((has_test ? in.test(name, subject, rest) : truth(subject)) == wanted) out.push_back(item);
  }
  return in.heap().iterator(std::move(out));
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"length", length},
    {"count", length},
    {"join", join_filter},
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"items", items},
    {"dictsort", dictsort},
    {"sort", sort},
    {"unique", unique},
    {"min",
     [](Interp& in, const Value& v, const Args& a) { return extreme(in, v, a, "min", false); }},
    {"max",
     [](Interp& in, const Value& v, const Args& a) { return extreme(in, v, a, "max", true); }},
    {"sum", sum},
    {"map", map},
    {"select",
     [](Interp& in, const Value& v, const Args& a) { return select(in, v, a, false, true); }},
    {"reject",
     [](Interp& in, const Value& v, const Args& a) { return select(in, v, a, false, false); }},
    {"selectattr",
     [](Interp& in, const Value& v, const Args& a) { return select(in, v, a, true, true); }},
    {"rejectattr",
     [](Interp& in, const Value& v, const Args& a) { return select(in, v, a, true, false); }},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  const auto at = std::find_if(std::begin(kFilters), std::end(kFilters),
                               [&](const auto& f) { return f.first == name; });
  return at == std::end(kFilters) ? nullptr : at->second;
}

}  // namespace cairn::text::jinja
