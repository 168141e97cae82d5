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
  const std::int64_t blocks = total_blocks(request);
  if (!pools.could_ever_fit(blocks, 1)) return no_room(blocks, false);
  if (!request.use_cache) {
    std::optional<Lease> cold = admit(request, nullptr);
    if (!cold) return no_room(blocks, true);
    cold->publish = false;
    return std::move(*cold);
  }

  ForestMatch match = forest.match(*request.tokens, request.scope);
  // Then it is no hit.
  if (match.resume != nullptr && sooner_computed(match.resume->end)) {
    match.resume = nullptr;
  }
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
  enter(request, match, *lease);
  return std::move(*lease);
}

// The request is let in: its path is remembered, the policy hears of it and says what to save.
void PrefixCache::Impl::enter(const LookupRequest& request, const ForestMatch& match,
                              Lease& lease) {
  release_claims(claims.end(request.id));  // of a lease that was never used
  ++tick;
  const std::span<const std::int32_t> tokens(*request.tokens);
  RequestView view;
  view.tick = tick;
  view.length = static_cast<std::int32_t>(tokens.size());
  view.overlap = match.overlap;
  view.resume = lease.resume;
  view.resume_node = lease.resume > 0 ? match.resume->plan : kPlanRoot;
  view.spare_room = spare_room;
  view.structure = request.structure;

  ForestNode* end = nullptr;
  if (match.overlap > 0) {
    const std::int64_t before = forest.nodes();
    const auto shared = tokens.first(static_cast<std::size_t>(match.overlap));
    // Room was made since the match: where the overlap ended can have been merged with what is
    // below.
    ForestNode* overlap = match.last->serial == match.last_serial
                              ? forest.insert_above(*match.last, match.overlap, tick)
                              : forest.insert(shared, tick, request.scope);
    overlap->point = true;
    view.inside_edge = forest.nodes() != before;
    view.overlap_node = overlap->plan;
    end = forest.insert_below(*overlap, tokens, tick);
  } else {
    end = forest.insert(tokens, tick, request.scope);
  }
  end->point = true;
  view.end_node = end->plan;

  policy->observe(view);
  log.request(view);
  lease.overlap = match.overlap;
  lease.kv_matched = match.kv_matched;
  lease.reasons = reasons_of(match, view.length, lease.resume);
  lease.publish = policy->keeps_anything();
  if (lease.publish) plan_saves(request, view, lease);
  if (observations.size() < kMaxObservations) {
    observations.push_back(policy->seen(view));
  }
  forget_idle();
  if (lease.publish) {
    in_flight.add(request.id, request.scope, request.tokens, lease.resume, lease.saves);
  }
}

// A fork that a running request has still to pass is worth waiting for; it is asked to save there.
std::optional<ShareWait> PrefixCache::Impl::wait_for_leader(const LookupRequest& request,
                                                            std::int32_t best_resume) {
  if (!request.may_wait || !policy->keeps_anything()) return std::nullopt;
  const std::int32_t least = best_resume + std::max(options.share_wait_tokens, 1) - 1;
  const auto leader = in_flight.best(request.id, request.scope, *request.tokens, least);
  // A state that cannot be kept, or that is sooner computed, is none to wait for.
  if (!leader || !fits_alone(leader->position) || sooner_computed(leader->position)) {
    return std::nullopt;
  }
  if (!in_flight.first_wait(request.id, leader->id)) return std::nullopt;
  ShareWait wait;
  wait.leader = leader->id;
  wait.save.position = leader->position;
  wait.save.kind = StateKind::branch;
  if (in_flight.will_save(leader->id, leader->position)) return wait;

  ForestNode* node =
      forest.insert(std::span(*request.tokens).first(static_cast<std::size_t>(leader->position)),
                    tick, request.scope);
  // A state that is not worth its restore can lie there already: no other one can be saved.
  if (node->state) {
    in_flight.stop_waiting(request.id);
    return std::nullopt;
  }
  if (forest.claim(*node) == Claim::none) forest.set_pending(*node, StateKind::branch);
  claims.add(leader->id, node->plan, true);
  std::vector<ForestNode*> fresh{node};
  Reservation slot = room_for_saves(leader->id, fresh);
  if (fresh.empty()) {
    in_flight.stop_waiting(request.id);
    return std::nullopt;
  }
  wait.save.state = slot.take_state();
  in_flight.add_save(leader->id, leader->position);
  return wait;
}

// Room for the running state and the blocks that are not shared. Holding `resume` pins it and its
// KV.
std::optional<Lease> PrefixCache::Impl::admit(const LookupRequest& request, ForestNode* resume) {
  Lease lease;
  lease.id = request.id;
  lease.scope = request.scope;
  if (resume != nullptr) {
    lease.resume = resume->end;
    lease.resume_kind = forest.tree()[resume->plan].kind;
    lease.resume_state = resume->state;
    lease.prefix_blocks = forest.block_table(*resume);
  }
  const std::int64_t blocks = total_blocks(request) - lease.resume / model::kBlockTokens;
  std::optional<Reservation> room = make_room(static_cast<std::int32_t>(blocks), 1);
  if (!room) return std::nullopt;
  lease.running_state = room->take_state();
  lease.reservation = std::move(*room);
  return lease;
}

void PrefixCache::Impl::plan_saves(const LookupRequest& request, const RequestView& view,
                                   Lease& lease) {
  std::vector<ForestNode*> fresh;
  std::int32_t last = view.resume;
  for (const Placement& p : policy->place(view)) {
    check(p.position > last && p.position < view.length, "a policy's places are out of order");
    last = p.position;
    // One that does not fit beside its own KV would only push out what does.
    if (!fits_alone(p.position)) continue;
    ForestNode* place = forest.insert_above(*forest.node(view.end_node), p.position, tick);
    if (place->state) continue;
    if (forest.claim(*place) == Claim::none) forest.set_pending(*place, p.kind);
    claims.add(request.id, place->plan, false);
    fresh.push_back(place);
  }
  Reservation slots = room_for_saves(request.id, fresh);
  for (const ForestNode* node : fresh) {
    lease.saves.push_back({node->end, forest.tree()[node->plan].kind, slots.take_state()});
  }
}

}  // namespace cairn::engine
