// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include "model/text/jinja_interp.hpp"

namespace cairn::text::jinja {
namespace {

constexpr std::string_view kNames[] = {"range", "dict", "namespace", "raise_exception",
                                       "strftime_now"};

Value make_range(Interp& in, const Args& args) {
  constexpr std::int64_t kFar = std::int64_t{1}
                                << 40;  // keeps every sum of bounds and steps in 64 bits
  const Bound bound("range", args, {"start", "stop", "step"}, 1);
  if (!args.named.empty()) fail("range() takes no named arguments");
  auto range = in.heap().make<RangeObject>();
  range->start = bound.given(1) ? bound.integer(0, 0) : 0;
  range->stop = bound.given(1) ? bound.integer(1, 0) : bound.integer(0, 0);
  range->step = bound.integer(2, 1);
  if (range->step == 0) fail("range() step cannot be zero");
  for (const std::int64_t n : {range->start, range->stop, range->step}) {
    if (n > kFar || n < -kFar)
      fail("range() of more than " + std::to_string(in.heap().limits().max_range_items) + " items");
  }
  const std::int64_t distance =
      range->step > 0 ? range->stop - range->start : range->start - range->stop;
  const std::int64_t step = std::abs(range->step);
  range->count = distance > 0 ? (distance - 1) / step + 1 : 0;
  if (static_cast<std::size_t>(range->count) > in.heap().limits().max_range_items) {
    fail("range() of more than " + std::to_string(in.heap().limits().max_range_items) + " items");
  }
  return Value::object(Kind::range, std::move(range));
}

std::shared_ptr<DictObject> make_dict(Interp& in, const char* what, const Args& args) {
  if (args.positional.size() > 1)
    fail(std::string(what) + "() takes at most one positional argument");
  auto dict = in.heap().make<DictObject>();
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.dict().entries) dict->set(key, value);
    } else {
      for (const Value& pair : iterate(in.heap(), from)) {
        const std::vector<Value> parts = iterate(in.heap(), pair);
        if (parts.size() != 2) fail(std::string(what) + "() needs pairs");
        dict->set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) dict->set(in.heap().data(name), value);
  return dict;
}

Value make_namespace(Interp& in, const Args& args) {
  auto space = in.heap().make<NamespaceObject>();
  const auto dict = make_dict(in, "namespace", args);
  for (const auto& [key, value] : dict->entries) {
    if (!key.is(Kind::string)) fail("namespace attributes must be strings");
    space->attributes.emplace_back(key.text().bytes(), value);
    in.heap().grow(*space, sizeof(Value) + 64);
  }
  in.heap().pin(space);
  return Value::object(Kind::name_space, std::move(space));
}

[[noreturn]] void raise(Interp& in, const Args& args) {
  const Bound bound("raise_exception", args, {"message"}, 1);
  throw TemplateError{in.text(bound.at(0)).bytes(), true, in.line()};
}

Value format_now(Interp& in, const Args& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  const std::string format = bound.text(0).bytes();
  if (format.size() > 1000) fail("strftime_now: the format is too long");
  if (format.empty()) return in.heap().data({});
  std::tm parts{};
  const std::time_t now = in.now();
  localtime_r(&now, &parts);
  std::string out(format.size() * 40 + 100, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &parts));
  return in.heap().data(std::move(out));
}

}  // namespace

bool is_builtin(std::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Value call_builtin(Interp& in, std::string_view name, const Args& args) {
  if (name == "range") return make_range(in, args);
  if (name == "dict") return in.heap().dict(make_dict(in, "dict", args));
  if (name == "namespace") return make_namespace(in, args);
  if (name == "strftime_now") return format_now(in, args);
  raise(in, args);
}

}  // namespace cairn::text::jinja
