// SPDX-License-Identifier: Apache-2.0
#include "cli/load/report.hpp"

namespace cairn::load {
namespace {

constexpr double kMs = 1e3;

// Unset once, unset for good.
void add(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& value) {
  if (sum && value) {
    *sum += *value;
  } else {
    sum.reset();
  }
}

void add(Group& group, const Record& r) {
  ++group.requests;
  if (!r.answered()) {
    ++group.errors[r.error];
    group.said.emplace(r.error, r.message);
    return;
  }
  ++group.answered;
  if (r.first) group.first_ms.add(kMs * r.to_first());
  for (const double gap : r.gaps) group.gap_ms.add(kMs * gap);
  group.total_ms.add(kMs * r.total());
  group.late_ms.add(kMs * (r.sent - r.intended));
  add(group.prompt_tokens, r.prompt_tokens);
  add(group.computed, r.computed());
  add(group.answer_tokens, r.answer_tokens);
}

}  // namespace

std::uint64_t Group::bytes() const {
  return first_ms.bytes() + gap_ms.bytes() + total_ms.bytes() + late_ms.bytes();
}

void Group::shrink(std::uint64_t most_bytes) {
  for (Spread* spread : {&first_ms, &gap_ms, &total_ms, &late_ms}) spread->shrink(most_bytes / 4);
}

void Tally::add(const Record& record) {
  load::add(all_, record);
  Group& group = kinds_[record.planned.kind];
  group.name = to_string(record.planned.kind);
  load::add(group, record);
}

void Tally::add_needed(std::span<const Record> records) {
  const auto reset = [](Group& group) {
    if (group.answered > 0) group.needed = 0;
  };
  reset(all_);
  for (auto& [kind, group] : kinds_) reset(group);
  for (const Record& record : records) {
    if (record.warm_up || !record.answered()) continue;
    load::add(all_.needed, record.needed);
    load::add(kinds_[record.planned.kind].needed, record.needed);
  }
}

std::vector<Group> Tally::take() {
  std::vector<Group> groups;
  all_.name = "all";
  if (kinds_.size() != 1) groups.push_back(std::move(all_));
  for (auto& [kind, group] : kinds_) groups.push_back(std::move(group));
  return groups;
}

}  // namespace cairn::load
