// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_worth.hpp"

#include <algorithm>
#include <utility>

namespace cairn::engine {

double aged_rate(double rate, std::uint64_t age) {
  constexpr double kHolds = 64;  // requests
  return rate / (1 + static_cast<double>(age) / kHolds);
}

DiskWorth::DiskWorth(const DiskMap& map, DiskTerms terms, const DiskStateInfo* extra,
                     const DiskStateInfo* extra_above)
    : terms_(std::move(terms)) {
  const auto enter = [this](const DiskStateInfo& s) {
    const std::uint64_t age = terms_.requests - std::min(terms_.requests, s.rated_at);
    nodes_[s.id] = {&s, 0, aged_rate(s.rate, age), 0, {}};
  };
  for (const auto& [id, s] : map.states()) enter(s);
  if (extra != nullptr) enter(*extra);
  for (const auto& [id, s] : map.states()) link(id, map.above(s, extra));
  if (extra != nullptr) link(extra->id, extra_above);
}

void DiskWorth::link(DiskId id, const DiskStateInfo* above) {
  Node& n = nodes_.at(id);
  n.above = above != nullptr ? above->id : 0;
  if (above == nullptr) return;
  Node& a = nodes_.at(above->id);
  a.below += n.rate;
  a.children.push_back(id);
}

double DiskWorth::of(DiskId id) const {
  const Node& n = nodes_.at(id);
  const std::int32_t from = n.above != 0 ? nodes_.at(n.above).state->position : 0;
  const double saved =
      terms_.prefill.between(from, n.state->position) - terms_.restore(from, n.state->position);
  return std::max(n.rate - n.below, 0.0) * std::max(saved, 0.0) /
         static_cast<double>(terms_.bytes(*n.state));
}

void DiskWorth::remove(DiskId id) {
  const auto gone = nodes_.extract(id);
  const Node& n = gone.mapped();
  for (const DiskId child : n.children) nodes_.at(child).above = n.above;
  if (n.above == 0) return;
  Node& a = nodes_.at(n.above);
  a.below += n.below - n.rate;
  std::erase(a.children, id);
  a.children.insert(a.children.end(), n.children.begin(), n.children.end());
}

}  // namespace cairn::engine
