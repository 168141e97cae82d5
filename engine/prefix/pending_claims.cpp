// SPDX-License-Identifier: Apache-2.0
#include "engine/prefix/pending_claims.hpp"

#include <algorithm>

namespace cairn::engine {

void PendingClaims::add(SequenceId id, PlanNode node, bool asked) {
  if (has(id, node)) return;
  saves_[id].push_back({node, asked});
  owners_[node].push_back(id);
}

bool PendingClaims::has(SequenceId id, PlanNode node) const {
  const auto it = owners_.find(node);
  return it != owners_.end() && std::count(it->second.begin(), it->second.end(), id) > 0;
}

std::size_t PendingClaims::owners(PlanNode node) const {
  const auto it = owners_.find(node);
  return it == owners_.end() ? 0 : it->second.size();
}

bool PendingClaims::disown(SequenceId id, PlanNode node) {
  const auto it = owners_.find(node);
  std::erase(it->second, id);
  if (!it->second.empty()) return false;
  owners_.erase(it);
  return true;
}

bool PendingClaims::drop(SequenceId id, PlanNode node) {
  const auto it = saves_.find(id);
  std::erase_if(it->second, [node](const Save& s) { return s.node == node; });
  if (it->second.empty()) saves_.erase(it);
  return disown(id, node);
}

void PendingClaims::settle(PlanNode node) {
  const auto it = owners_.find(node);
  if (it == owners_.end()) return;
  const std::vector<SequenceId> owners = it->second;
  for (const SequenceId id : owners) drop(id, node);
}

std::vector<PlanNode> PendingClaims::end(SequenceId id) {
  std::vector<PlanNode> left;
  const auto it = saves_.find(id);
  if (it == saves_.end()) return left;
  for (const Save& s : it->second) {
    if (disown(id, s.node)) left.push_back(s.node);
  }
  saves_.erase(it);
  return left;
}

std::vector<PlanNode> PendingClaims::refuse_asked(SequenceId id) {
  std::vector<PlanNode> left;
  const auto it = saves_.find(id);
  if (it == saves_.end()) return left;
  std::erase_if(it->second, [&](const Save& s) {
    if (s.asked && disown(id, s.node)) left.push_back(s.node);
    return s.asked;
  });
  if (it->second.empty()) saves_.erase(it);
  return left;
}

void PendingClaims::clear() {
  saves_.clear();
  owners_.clear();
}

}  // namespace cairn::engine
