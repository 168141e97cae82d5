// SPDX-License-Identifier: Apache-2.0
#include "base/failpoints.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "base/check.hpp"

namespace cairn {
#ifdef CAIRN_FAILPOINTS_ENABLED
namespace {

struct Entry {
  Fault fault;
  std::int64_t left = -1;  // uses left, -1 without end
};

std::int64_t to_int(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "sleep:5000", "fail", "fail:4096", "die", each with an optional "*N".
Entry parse_entry(std::string_view action) {
  Entry entry;
  if (const auto star = action.find('*'); star != std::string_view::npos) {
    entry.left = to_int(action.substr(star + 1));
    action = action.substr(0, star);
  }
  const bool counted = action.substr(0, 5) == "fail:";
  entry.fault.fail = action == "fail" || counted;
  if (counted) entry.fault.after = to_int(action.substr(5));
  entry.fault.die = action == "die";
  if (action.substr(0, 6) == "sleep:") entry.fault.sleep_ms = to_int(action.substr(6));
  return entry;
}

using Table = std::map<std::string, Entry, std::less<>>;

Table parse_table(std::string_view text) {
  Table table;
  while (!text.empty()) {
    const auto end = text.find(';');
    const auto item = text.substr(0, end);
    if (const auto equals = item.find('='); equals != std::string_view::npos) {
      table[std::string(item.substr(0, equals))] = parse_entry(item.substr(equals + 1));
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return table;
}

struct State {
  std::mutex mutex;
  Table table;
  State() {
    if (const char* env = std::getenv("CAIRN_FAILPOINTS")) table = parse_table(env);
  }
};

State& state() {
  static State instance;
  return instance;
}

}  // namespace

Fault failpoint(std::string_view name) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto it = s.table.find(name);
  if (it == s.table.end() || it->second.left == 0) return {};
  if (it->second.left > 0) --it->second.left;
  return it->second.fault;
}

void set_failpoints(std::string_view text) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.table = parse_table(text);
}
#else
Fault failpoint(std::string_view) { return {}; }
void set_failpoints(std::string_view) {}
#endif

bool hit_failpoint(std::string_view name) {
  const Fault fault = failpoint(name);
  if (fault.sleep_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(fault.sleep_ms));
  if (fault.die) throw InvariantError("failpoint " + std::string(name));
  return fault.fail;
}

}  // namespace cairn
