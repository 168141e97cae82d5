// SPDX-License-Identifier: Apache-2.0
// A request at the door: what it can resume from, whom it should wait for, what it may hold.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "engine/prefix/cache_impl.hpp"

namespace cairn::engine {
namespace {

// Generated tokens that admission reserves blocks for (architecture, decision 5).
constexpr std::int32_t kReservedNew = 256;
// Observations kept while nobody takes them.
constexpr std::size_t kMaxObservations = 65'536;

std::int64_t total_blocks(const LookupRequest& request) {
  const std::int64_t tokens = static_cast<std::int64_t>(request.tokens->size()) +
                              std::clamp(request.max_new, 0, kReservedNew);
  return (tokens + model::kBlockTokens - 1) / model::kBlockTokens;
}

RecomputeReasons reasons_of(const ForestMatch& match, std::int32_t length, std::int32_t resume) {
  RecomputeReasons r;
  std::int32_t lost = match.overlap - resume;
  r.last_token = match.overlap == length ? std::min(lost, 1) : 0;
  lost -= r.last_token;
  r.evicted = std::min(match.lost_kv, lost);
  r.no_state = lost - r.evicted;
  return r;
}

}  // namespace

NoRoom PrefixCache::Impl::no_room(std::int64_t blocks, bool ever) const {
  const std::uint64_t needed = static_cast<std::uint64_t>(blocks) * block_bytes() + state_bytes();
  const PoolUsage usage = pools.usage();
  const std::uint64_t available = ever ? usage.bytes_budget - usage.bytes_used : usage.bytes_budget;
  NoRoom n;
  n.ever = ever;
  n.message = "the request needs " + std::to_string(needed) + " bytes (" + format_bytes(needed) +
              ") for its KV and state, " +
              (ever ? "of the cache budget " : "the cache budget has ") +
              std::to_string(available) + " bytes (" + format_bytes(available) + ")" +
              (ever ? " are not in use by running requests" : "");
  return n;
}

LookupResult PrefixCache::Impl::lookup(const LookupRequest& request) {
  check(request.tokens && !request.tokens->empty(), "a lookup without tokens");
  check(request.tokens->size() <= std::numeric_limits<std::int32_t>::max() / 2,
        "a prompt longer than positions can count");
  ++tick;
  const std::int64_t blocks = total_blocks(request);
  if (!pools.could_ever_fit(blocks, 1)) return no_room(blocks, false);
  if (!request.use_cache) {
    std::optional<Lease> cold = admit(request, nullptr);
    if (!cold) return no_room(blocks, true);
    cold->publish = false;
    return std::move(*cold);
  }

  const std::span<const std::int32_t> tokens(*request.tokens);
  const auto length = static_cast<std::int32_t>(tokens.size());
  const ForestMatch match = forest.match(tokens);
  {
    const StateRef pin = match.resume != nullptr ? match.resume->state : StateRef();
    const std::int32_t resume = match.resume != nullptr ? match.resume->end : 0;
    if (auto wait = wait_for_leader(request, resume)) return std::move(*wait);
  }
  std::optional<Lease> lease = admit(request, match.resume);
  // The state to resume from can be what stands in the way: then the request runs cold in its room.
  if (!lease && match.resume != nullptr) lease = admit(request, nullptr);
  if (!lease) return no_room(blocks, true);
  in_flight.stop_waiting(request.id);

  lease->overlap = match.overlap;
  lease->kv_matched = match.kv_matched;
  lease->reasons = reasons_of(match, length, lease->resume);
  lease->publish = policy->keeps_anything();
  if (lease->publish) plan_saves(request, match, *lease);
  if (observations.size() < kMaxObservations) {
    observations.push_back({length, match.overlap, lease->resume});
  }
  forest.insert(tokens, tick)->prompt_end = true;
  forest.trim(options.max_nodes, options.max_tokens);
  if (lease->publish) in_flight.add(request.id, request.tokens, lease->resume, lease->saves);
  return std::move(*lease);
}

// A fork that a running request has still to pass is worth waiting for; it is asked to save there.
std::optional<ShareWait> PrefixCache::Impl::wait_for_leader(const LookupRequest& request,
                                                            std::int32_t best_resume) {
  if (!request.may_wait || !policy->keeps_anything()) return std::nullopt;
  const std::int32_t least = best_resume + std::max(options.share_wait_tokens, 1) - 1;
  const auto leader = in_flight.best(request.id, *request.tokens, least);
  if (!leader || !in_flight.first_wait(request.id, leader->id)) return std::nullopt;
  ShareWait wait;
  wait.leader = leader->id;
  wait.save.position = leader->position;
  wait.save.kind = StateKind::branch;
  if (in_flight.will_save(leader->id, leader->position)) return wait;

  Candidate fresh;
  fresh.position = leader->position;
  fresh.kind = StateKind::branch;
  fresh.last_used = tick;
  fresh.gap = leader->position - best_resume;
  fresh.bytes = state_bytes() + static_cast<std::uint64_t>(blocks_for(fresh.gap)) * block_bytes();
  std::optional<Reservation> slot = room_for_save(order.value(fresh));
  if (!slot) {
    in_flight.stop_waiting(request.id);
    return std::nullopt;
  }
  wait.save.state = slot->take_state();
  in_flight.add_save(leader->id, leader->position);
  return wait;
}

// Room for the running state and the blocks that are not shared. Holding `resume` pins it and its
// KV.
std::optional<Lease> PrefixCache::Impl::admit(const LookupRequest& request, ForestNode* resume) {
  Lease lease;
  lease.id = request.id;
  if (resume != nullptr) {
    lease.resume = resume->end;
    lease.resume_state = resume->state;
    lease.prefix_blocks = forest.block_table(*resume);
  }
  const std::int64_t blocks = total_blocks(request) - lease.resume / model::kBlockTokens;
  std::optional<Reservation> room = make_room(static_cast<std::int32_t>(blocks), 1);
  if (!room) return std::nullopt;
  lease.running_state = room->take_state();
  lease.reservation = std::move(*room);
  if (resume != nullptr) {
    resume->last_used = tick;
    order.renew(*resume);
  }
  return lease;
}

void PrefixCache::Impl::plan_saves(const LookupRequest& request, const ForestMatch& match,
                                   Lease& lease) {
  PlacementQuery query;
  query.length = static_cast<std::int32_t>(request.tokens->size());
  query.overlap = match.overlap;
  query.resume = lease.resume;
  query.inside_edge = match.inside_edge;
  query.spare_room = spare_room;
  query.structure = request.structure;
  // A save competes as what it will be: a state made now. It takes free room or that of states
  // worth less.
  struct Fresh {
    Placement placement;
    double value = 0;
  };
  std::vector<Fresh> fresh;
  std::int32_t above = query.resume;
  for (const Placement& p : policy->place(query)) {
    check(p.position > above && p.position < query.length, "a policy's places are out of order");
    Candidate c;
    c.position = p.position;
    c.kind = p.kind;
    c.last_used = tick;
    c.gap = p.position - above;
    c.bytes = state_bytes() + static_cast<std::uint64_t>(blocks_for(c.gap)) * block_bytes();
    fresh.push_back({p, order.value(c)});
    above = p.position;
  }
  std::stable_sort(fresh.begin(), fresh.end(), [](const Fresh& a, const Fresh& b) {
    return a.value != b.value ? a.value > b.value : rank(a.placement.kind) < rank(b.placement.kind);
  });
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    std::optional<Reservation> slot = room_for_save(fresh[i].value);
    if (!slot) {
      counters.skipped += fresh.size() - i;  // those that follow are worth no more
      break;
    }
    lease.saves.push_back(
        {fresh[i].placement.position, fresh[i].placement.kind, slot->take_state()});
  }
  std::sort(lease.saves.begin(), lease.saves.end(),
            [](const PlannedSave& a, const PlannedSave& b) { return a.position < b.position; });
}

}  // namespace cairn::engine
