// SPDX-License-Identifier: Apache-2.0
#include "engine/prefix/in_flight.hpp"

#include <algorithm>
#include <utility>

#include "engine/prefix/radix_forest.hpp"

namespace cairn::engine {

void InFlight::add(SequenceId id, std::string scope, TokenSeq tokens, std::int32_t resume,
                   std::span<const PlannedSave> saves) {
  Running r;
  r.scope = std::move(scope);
  r.tokens = std::move(tokens);
  r.reached = resume;
  for (const PlannedSave& s : saves) r.saves.push_back(s.position);
  running_[id] = std::move(r);
}

void InFlight::end(SequenceId id) {
  running_.erase(id);
  waits_.erase(id);
  std::erase_if(waits_, [id](const auto& wait) { return wait.second == id; });
}

void InFlight::passed(SequenceId id, std::int32_t position) {
  const auto it = running_.find(id);
  if (it != running_.end()) it->second.reached = std::max(it->second.reached, position);
}

std::optional<InFlight::Leader> InFlight::best(SequenceId self, std::string_view scope,
                                               std::span<const std::int32_t> tokens,
                                               std::int32_t least) const {
  std::optional<Leader> found;
  const auto last = static_cast<std::int32_t>(tokens.size()) - 1;
  for (const auto& [id, r] : running_) {  // ascending ids: the oldest of equals leads
    const std::span<const std::int32_t> theirs(*r.tokens);
    // Only who agrees at the first token beyond the best so far shares more.
    const auto at = static_cast<std::size_t>(least);
    if (id == self || r.scope != scope || at >= theirs.size() || at >= tokens.size() ||
        theirs[at] != tokens[at]) {
      continue;
    }
    const std::int32_t overlap = common_prefix(theirs, tokens);
    const std::int32_t position = std::min(overlap, last);
    if (overlap <= least || r.reached >= position) continue;
    least = overlap;
    found = Leader{id, overlap, position};
  }
  return found;
}

bool InFlight::will_save(SequenceId leader, std::int32_t position) const {
  const auto it = running_.find(leader);
  return it != running_.end() &&
         std::count(it->second.saves.begin(), it->second.saves.end(), position) > 0;
}

void InFlight::add_save(SequenceId leader, std::int32_t position) {
  const auto it = running_.find(leader);
  if (it != running_.end()) it->second.saves.push_back(position);
}

bool InFlight::first_wait(SequenceId follower, SequenceId leader) {
  const auto [it, fresh] = waits_.try_emplace(follower, leader);
  if (!fresh && it->second == leader) return false;
  it->second = leader;
  return true;
}

}  // namespace cairn::engine
