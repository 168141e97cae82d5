// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/bytes.hpp"
#include "base/json_text.hpp"
#include "engine/simulate/report.hpp"
#include "engine/simulate/report_layout.hpp"

namespace cairn::engine {
namespace {

constexpr int kCell = 9;  // characters of a number's column, of which there are two a budget

std::string padded_left(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string padded_right(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string percent(const SimulatorResult& result) {
  return fixed(100 * result.recomputed_share(), 2);
}

}  // namespace

std::string fixed(double x, int decimals) {
  std::array<char, 400> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), x, std::chars_format::fixed, decimals)
          .ptr;
  return {text.data(), end};
}

double states_per_request(const SimulatorResult& r) {
  return r.requests == 0 ? 0
                         : static_cast<double>(r.states_written) / static_cast<double>(r.requests);
}

ReportGrid::ReportGrid(std::span<const SimulatorResult> results) : results_(results) {
  for (const SimulatorResult& r : results) {
    if (std::find(policies.begin(), policies.end(), r.policy) == policies.end()) {
      policies.push_back(r.policy);
    }
    budgets.push_back(r.bytes);
  }
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
}

const SimulatorResult* ReportGrid::cell(const std::string& policy, std::uint64_t bytes) const {
  for (const SimulatorResult& r : results_) {
    if (r.bytes == bytes && r.policy == policy) return &r;
  }
  return nullptr;
}

std::string result_json(const SimulatorResult& r) {
  JsonWriter json;
  json.begin_object();
  json.key("policy").string(r.policy);
  json.key("bytes").unsigned_integer(r.bytes);
  json.key("requests").integer(r.requests);
  json.key("prompt_tokens").integer(r.prompt_tokens);
  json.key("reusable_tokens").integer(r.reusable_tokens);
  json.key("recomputed_tokens").integer(r.recomputed_tokens);
  json.key("recomputed_share").number(r.recomputed_share());
  json.key("recomputed_cost").number(r.recomputed_cost);
  json.key("states_written").integer(r.states_written);
  json.key("states_dropped").integer(r.states_dropped);
  json.key("solve_ms_total").number(r.solve_ms_total);
  json.key("gap");
  r.gap ? json.number(*r.gap) : json.null();
  json.end_object();
  return json.take();
}

const SimulatorResult* strongest(std::span<const SimulatorResult> results, std::uint64_t bytes) {
  const SimulatorResult* best = nullptr;
  const auto better = [](const SimulatorResult& a, const SimulatorResult& b) {
    if (a.recomputed_tokens != b.recomputed_tokens)
      return a.recomputed_tokens < b.recomputed_tokens;
    return a.states_written < b.states_written;
  };
  for (const SimulatorResult& r : results) {
    if (r.bytes != bytes || r.policy == "oracle") continue;
    if (!best || better(r, *best)) best = &r;
  }
  return best;
}

std::string budget_label(std::uint64_t bytes) {
  struct Unit {
    std::uint64_t size;
    const char* name;
  };
  constexpr std::array kUnits = {Unit{1'000'000'000'000, "TB"}, Unit{1'000'000'000, "GB"},
                                 Unit{1'000'000, "MB"},         Unit{1'000, "kB"},
                                 Unit{1ull << 40, "TiB"},       Unit{1ull << 30, "GiB"},
                                 Unit{1ull << 20, "MiB"},       Unit{1ull << 10, "KiB"}};
  for (const Unit& unit : kUnits) {
    const std::uint64_t part = bytes % unit.size;
    // Of two decimals no more than needed, and only where they are exact.
    if (bytes < unit.size || part % (unit.size / 4) != 0) continue;
    const int decimals = part == 0 ? 0 : part * 2 % unit.size == 0 ? 1 : 2;
    return fixed(static_cast<double>(bytes) / static_cast<double>(unit.size), decimals) + " " +
           unit.name;
  }
  return format_bytes(bytes);
}

std::string result_table(std::span<const SimulatorResult> results) {
  if (results.empty()) return "";
  const ReportGrid grid(results);
  std::size_t names = 10;
  for (const std::string& policy : grid.policies) names = std::max(names, policy.size() + 2);
  std::string out = "Reusable tokens recomputed (%) and states written a request, of " +
                    std::to_string(results.front().requests) + " requests, " +
                    std::to_string(results.front().reusable_tokens) + " reusable tokens\n\n" +
                    padded_right("policy", names);
  for (const std::uint64_t bytes : grid.budgets) {
    out += padded_left(budget_label(bytes), 2 * kCell);
  }
  out += '\n';
  for (const std::string& policy : grid.policies) {
    out += padded_right(policy, names);
    for (const std::uint64_t bytes : grid.budgets) {
      const SimulatorResult* r = grid.cell(policy, bytes);
      out += padded_left(r ? percent(*r) : "-", kCell);
      out += padded_left(r ? fixed(states_per_request(*r), 2) : "-", kCell);
    }
    out += '\n';
  }
  out += '\n';
  for (const std::uint64_t bytes : grid.budgets) {
    const SimulatorResult* best = strongest(results, bytes);
    if (!best) continue;
    out += "strongest at " + budget_label(bytes) + ": " + best->policy + " (" + percent(*best) +
           " %)\n";
  }
  return out;
}

}  // namespace cairn::engine
