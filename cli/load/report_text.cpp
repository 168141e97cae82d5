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
  if (spread.empty()) return;
  print(out, "    %-13s p50 %9.2f  p90 %9.2f  p99 %9.2f  max %9.2f ms\n", what,
        spread.percentile(0.5), spread.percentile(0.9), spread.percentile(0.99), spread.most());
}

std::string told(const std::optional<std::int64_t>& tokens) {
  return tokens ? std::to_string(*tokens) : "not reported";
}

void print(std::string& out, const Group& group) {
  print(out, "  %-10s %lld answered", group.name.c_str(), static_cast<long long>(group.answered));
  for (const auto& [kind, count] : group.errors) {
    print(out, ", %lld failed: %s", static_cast<long long>(count), kind.c_str());
  }
  out += "\n";
  for (const auto& [kind, message] : group.said) {
    print(out, "    %s: %.300s\n", kind.c_str(), message.c_str());
  }
  print(out, "first token", group.first_ms);
  print(out, "between", group.gap_ms);
  print(out, "total", group.total_ms);
  if (group.late_ms.most() >= 1) print(out, "sent late by", group.late_ms);
  if (group.answered == 0) return;
  out += "    tokens: prompts " + told(group.prompt_tokens) + ", computed " + told(group.computed);
  if (group.needed) out += ", a cache without limits " + std::to_string(*group.needed);
  out += "; answers " + told(group.answer_tokens) + "\n";
}

double error_of(const Group& group) {
  return std::max({group.first_ms.error(), group.gap_ms.error(), group.total_ms.error()});
}

}  // namespace

std::string exactness(const Report& report) {
  double error = 0;
  bool every = true;
  for (const Pass& pass : report.passes) {
    every = every && pass.every;
    for (const Group& group : pass.groups) error = std::max(error, error_of(group));
  }
  std::string out;
  if (error > 0) {
    print(out,
          "numbers, sums, means and maxima are exact; percentiles of more than %zu different "
          "values, or beyond the memory for them, at most %.3g %% too large\n",
          Spread::kExact, 100 * error);
  }
  if (!every) out += "of single requests not all were kept, but of two neighbours the slower one\n";
  return out;
}

std::string summary(const Pass& pass) {
  const double seconds = std::max(pass.seconds, 1e-9);
  const Group* all = pass.groups.empty() ? nullptr : &pass.groups.front();
  std::string out = pass.name + (pass.dropped ? ", the cache dropped before" : "");
  print(out, ": %.2f s", pass.seconds);
  if (all) {
    print(out, ", %.2f requests/s", static_cast<double>(all->answered) / seconds);
    const auto rate = [&](const std::optional<std::int64_t>& tokens, const char* of) {
      if (tokens) print(out, ", %.1f %s tokens/s", static_cast<double>(*tokens) / seconds, of);
    };
    rate(all->answer_tokens, "answer");
    rate(all->prompt_tokens, "prompt");
  }
  if (pass.busy_seconds() > 0) {
    print(out, "; the server's model busy %.1f %%", 100 * pass.busy_seconds() / seconds);
  }
  return out;
}

std::string report_text(const Report& report) {
  std::string out;
  out += "server: " + report.server + ", model: " + report.model + "\n";
  for (const Pass& pass : report.passes) {
    out += "\n" + summary(pass) + "\n";
    for (const Group& group : pass.groups) print(out, group);
  }
  print(out, "\n%lld answers compared with earlier ones to the same prompt, %lld differ\n",
        static_cast<long long>(report.compared), static_cast<long long>(report.different));
  if (report.not_compared > 0) {
    print(out, "%lld more were not kept to compare with\n",
          static_cast<long long>(report.not_compared));
  }
  out += exactness(report);
  if (report.ended != "complete") out += "not complete: " + report.ended + "\n";
  return out;
}

}  // namespace cairn::load
