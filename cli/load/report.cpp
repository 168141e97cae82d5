// SPDX-License-Identifier: Apache-2.0
#include "cli/load/report.hpp"

#include <tuple>

namespace cairn::load {
namespace {

constexpr double kMs = 1e3;

Group group_of(std::string name, const std::vector<const Record*>& records) {
  Group group;
  group.name = std::move(name);
  group.needed = 0;
  std::vector<double> first, gaps, total, late;
  for (const Record* r : records) {
    ++group.requests;
    if (!r->answered()) {
      ++group.errors[r->error];
      continue;
    }
    ++group.answered;
    if (r->first) first.push_back(kMs * r->to_first());
    for (const double gap : r->gaps) gaps.push_back(kMs * gap);
    total.push_back(kMs * r->total());
    late.push_back(kMs * (r->sent - r->intended));
    group.prompt_tokens += r->prompt_tokens.value_or(0);
    group.computed += r->computed();
    group.answer_tokens += r->answer_tokens;
    if (group.needed && r->needed) {
      *group.needed += *r->needed;
    } else {
      group.needed.reset();
    }
  }
  if (group.answered == 0) group.needed.reset();
  group.first_ms = Spread(std::move(first));
  group.gap_ms = Spread(std::move(gaps));
  group.total_ms = Spread(std::move(total));
  group.late_ms = Spread(std::move(late));
  return group;
}

}  // namespace

std::vector<Group> groups_of(std::span<const Record> records) {
  std::vector<const Record*> all;
  std::map<Kind, std::vector<const Record*>> kinds;
  for (const Record& record : records) {
    if (record.warm_up) continue;
    all.push_back(&record);
    kinds[record.planned.kind].push_back(&record);
  }
  std::vector<Group> groups;
  if (kinds.size() != 1) groups.push_back(group_of("all", all));
  for (const auto& [kind, of] : kinds) groups.push_back(group_of(to_string(kind), of));
  return groups;
}

void compare_answers(Report& report) {
  std::map<std::string, const Record*> earlier;
  for (const Pass& pass : report.passes) {
    for (const Record& record : pass.records) {
      if (!record.answered()) continue;
      const auto [at, fresh] = earlier.emplace(record.digest, &record);
      if (fresh) continue;
      ++report.compared;
      const Record& before = *at->second;
      if (std::tie(record.text, record.answer) != std::tie(before.text, before.answer)) {
        ++report.different;
      }
    }
  }
}

}  // namespace cairn::load
