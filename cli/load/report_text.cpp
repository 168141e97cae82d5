// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/load/report.hpp"

namespace cairn::load {
namespace {

template <class... Values>
void print(std::string& out, const char* format, Values... values) {
  std::array<char, 512> line;
  const int size = std::snprintf(line.data(), line.size(), format, values...);
  out.append(line.data(), std::min(line.size() - 1, static_cast<std::size_t>(std::max(size, 0))));
}

void print(std::string& out, const char* what, const Spread& spread) {
  if (spread.ascending.empty()) return;
  print(out, "    %-13s p50 %9.2f  p90 %9.2f  p99 %9.2f  max %9.2f ms\n", what, spread.p50,
        spread.p90, spread.p99, spread.most);
}

void print(std::string& out, const Group& group) {
  print(out, "  %-10s %lld answered", group.name.c_str(), static_cast<long long>(group.answered));
  for (const auto& [kind, count] : group.errors) {
    print(out, ", %lld failed: %s", static_cast<long long>(count), kind.c_str());
  }
  out += "\n";
  print(out, "first token", group.first_ms);
  print(out, "between", group.gap_ms);
  print(out, "total", group.total_ms);
  if (group.late_ms.most >= 1) print(out, "sent late by", group.late_ms);
  print(out, "    prompts %lld tokens, computed %lld", static_cast<long long>(group.prompt_tokens),
        static_cast<long long>(group.computed));
  if (group.needed) {
    print(out, ", a cache without limits %lld", static_cast<long long>(*group.needed));
  }
  print(out, "; answers %lld tokens\n", static_cast<long long>(group.answer_tokens));
}

}  // namespace

std::string report_text(const Report& report) {
  std::string out;
  out += "server: " + report.server + ", model: " + report.model + "\n";
  for (const Pass& pass : report.passes) {
    const double seconds = std::max(pass.seconds, 1e-9);
    const Group* all = pass.groups.empty() ? nullptr : &pass.groups.front();
    print(out, "\n%s%s: %.2f s", pass.name.c_str(),
          pass.dropped ? ", the cache dropped before" : "", pass.seconds);
    if (all) {
      print(out, ", %.2f requests/s, %.1f answer tokens/s, %.1f prompt tokens/s",
            static_cast<double>(all->answered) / seconds,
            static_cast<double>(all->answer_tokens) / seconds,
            static_cast<double>(all->prompt_tokens) / seconds);
    }
    if (pass.busy_seconds() > 0) {
      print(out, "; the server's model busy %.1f %%", 100 * pass.busy_seconds() / seconds);
    }
    out += "\n";
    for (const Group& group : pass.groups) print(out, group);
  }
  print(out, "\n%lld answers compared with earlier ones to the same prompt, %lld differ\n",
        static_cast<long long>(report.compared), static_cast<long long>(report.different));
  if (report.ended != "complete") out += "not complete: " + report.ended + "\n";
  return out;
}

}  // namespace cairn::load
