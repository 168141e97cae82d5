// SPDX-License-Identifier: Apache-2.0
// An executor without a model. A KV slot holds the hash of every token up to its own, a state the
// hash of every token before it, and computing goes on from what the state says: a wrong block or
// state shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "tests/support/scripted_policy.hpp"

namespace cairn::tests {

using engine::blocks_for;
using engine::KvBlockRef;
using engine::Lease;
using engine::SavedState;
using engine::StateKind;
using engine::TokenSeq;
using Tokens = std::vector<std::int32_t>;

inline constexpr model::MemoryLayout kFakeLayout{.kv_block_bytes = 16 * 8, .state_bytes = 1024};

inline TokenSeq seq(Tokens tokens) { return std::make_shared<const Tokens>(std::move(tokens)); }

inline std::uint64_t next_hash(std::uint64_t h, std::int32_t token) {
  h ^= static_cast<std::uint32_t>(token) + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2);
  h *= 0xFF51AFD7ED558CCDull;
  return h ^ (h >> 32);
}

inline std::uint64_t load_word(const std::byte* p) {
  std::uint64_t w = 0;
  std::memcpy(&w, p, sizeof w);
  return w;
}
inline void store_word(std::byte* p, std::uint64_t w) { std::memcpy(p, &w, sizeof w); }

/// hashes[i]: of the first i tokens.
inline std::vector<std::uint64_t> prefix_hashes(std::span<const std::int32_t> tokens) {
  std::vector<std::uint64_t> h{0x5EED};
  for (std::int32_t t : tokens) h.push_back(next_hash(h.back(), t));
  return h;
}

/// Whether a lease's blocks and state hold exactly the prefix it promises.
inline bool holds_prefix(const Lease& lease, std::span<const std::int32_t> tokens) {
  const std::vector<std::uint64_t> h =
      prefix_hashes(tokens.first(static_cast<std::size_t>(lease.resume)));
  if (lease.resume == 0) return !lease.resume_state && lease.prefix_blocks.empty();
  if (static_cast<std::int32_t>(lease.prefix_blocks.size()) != blocks_for(lease.resume))
    return false;
  for (std::int32_t p = 0; p < lease.resume; ++p) {
    const std::byte* block = lease.prefix_blocks[static_cast<std::size_t>(p / 16)].data();
    if (load_word(block + 8 * (p % 16)) != h[static_cast<std::size_t>(p) + 1]) return false;
  }
  return load_word(lease.resume_state.data()) == h.back();
}

/// Runs one lease as the batch loop would. Throws InvariantError when the memory it was given is
/// not what the lease says.
class FakePrefill {
 public:
  FakePrefill(Lease lease, TokenSeq tokens) : lease_(std::move(lease)), tokens_(*tokens) {
    check(holds_prefix(lease_, tokens_), "a lease holds another prefix");
    position_ = lease_.resume;
    hash_ = lease_.resume > 0 ? load_word(lease_.resume_state.data()) : 0x5EED;
    const auto full = static_cast<std::size_t>(lease_.resume / 16);
    table_.assign(lease_.prefix_blocks.begin(),
                  lease_.prefix_blocks.begin() + static_cast<std::ptrdiff_t>(full));
    if (lease_.resume % 16 != 0) {  // copy-on-write of the block the resume point is in
      KvBlockRef own = take_block();
      std::memcpy(own.data(), lease_.prefix_blocks.back().data(),
                  static_cast<std::size_t>(lease_.resume % 16) * 8);
      table_.push_back(std::move(own));
    }
    lease_.prefix_blocks.clear();
    lease_.resume_state = {};
  }

  const Lease& lease() const { return lease_; }
  std::int32_t position() const { return position_; }
  const Tokens& tokens() const { return tokens_; }

  /// Computes up to `to` and returns what was saved on the way.
  std::vector<SavedState> advance(std::int32_t to) {
    std::vector<SavedState> saved;
    while (position_ < to) {
      if (position_ % 16 == 0) table_.push_back(take_block());
      hash_ = next_hash(hash_, tokens_[static_cast<std::size_t>(position_)]);
      store_word(table_.back().data() + 8 * (position_ % 16), hash_);
      ++position_;
      for (engine::PlannedSave& s : lease_.saves) {
        if (s.position == position_ && s.state) saved.push_back(save(s.kind, std::move(s.state)));
      }
    }
    store_word(lease_.running_state.data(), hash_);
    return saved;
  }
  std::vector<SavedState> finish_prompt() {
    return advance(static_cast<std::int32_t>(tokens_.size()));
  }

  /// Appends generated tokens; their KV is computed by the next advance().
  void generate(std::span<const std::int32_t> more) {
    tokens_.insert(tokens_.end(), more.begin(), more.end());
  }
  /// Hands the running state over as the end of the answer.
  SavedState hand_over() {
    store_word(lease_.running_state.data(), hash_);
    return save(StateKind::answer_end, std::move(lease_.running_state));
  }

 private:
  KvBlockRef take_block() {
    KvBlockRef block = lease_.reservation.take_block();
    std::memset(block.data(), 0xEE, kFakeLayout.kv_block_bytes);
    return block;
  }
  SavedState save(StateKind kind, engine::StateRef state) {
    std::memset(state.data(), 0xDD, kFakeLayout.state_bytes);
    store_word(state.data(), hash_);
    return {lease_.id, seq(tokens_), position_, kind, std::move(state), table_, lease_.scope};
  }

  Lease lease_;
  Tokens tokens_;
  std::int32_t position_ = 0;
  std::uint64_t hash_ = 0;
  std::vector<KvBlockRef> table_;
};

/// The branch and the end: what most tests want.
inline std::vector<engine::Placement> ends_and_branches(const engine::RequestView& q) {
  std::vector<engine::Placement> out;
  if (q.overlap > q.resume && q.overlap < q.length - 1)
    out.push_back({q.overlap, StateKind::branch});
  if (q.length - 1 > q.resume) out.push_back({q.length - 1, StateKind::prompt_end});
  return out;
}

/// Tokens of a document: `count` values that depend on `name` and the position.
inline Tokens document(std::uint64_t name, std::int32_t count) {
  Tokens t;
  std::uint64_t h = name * 0x9E3779B97F4A7C15ull + 1;
  for (std::int32_t i = 0; i < count; ++i) {
    h = next_hash(h, i);
    t.push_back(static_cast<std::int32_t>(h % 50'000));
  }
  return t;
}
inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A cache with a pool and an executor that runs one request at a time.
struct FakeServer {
  explicit FakeServer(std::uint64_t budget, std::unique_ptr<engine::CachePolicy> policy,
                      engine::PrefixOptions options = {},
                      std::shared_ptr<model::Arena> arena = nullptr)
      : pools(kFakeLayout, budget, std::move(arena)), cache(pools, std::move(policy), options) {}

  engine::LookupResult lookup(const Tokens& tokens, std::int32_t max_new = 16) {
    engine::LookupRequest r;
    r.id = ++last_id;
    r.tokens = seq(tokens);
    r.max_new = max_new;
    return cache.lookup(r);
  }
  /// Admits, computes, publishes and ends; `answer` tokens are generated and handed over. Returns
  /// what the lease said.
  engine::RecomputeReasons reasons;
  std::int32_t overlap = 0, kv_matched = 0;
  std::int32_t serve(const Tokens& tokens, const Tokens& answer = {}) {
    auto result = lookup(tokens, static_cast<std::int32_t>(answer.size()));
    auto* lease = std::get_if<Lease>(&result);
    check(lease != nullptr, "no lease");
    const std::int32_t resume = lease->resume;
    reasons = lease->reasons;
    overlap = lease->overlap;
    kv_matched = lease->kv_matched;
    const engine::SequenceId id = lease->id;
    {
      FakePrefill run(std::move(*lease), seq(tokens));
      for (SavedState& s : run.finish_prompt()) cache.publish(std::move(s));
      if (!answer.empty()) {
        run.generate(answer);
        run.finish_prompt();
        cache.publish(run.hand_over());
      }
    }
    cache.end(id);
    return resume;
  }
  /// Drops the state of the least value, as a running request does that needs a block. Returns the
  /// bytes that came back; 0 when all that is left is in use.
  std::uint64_t evict_one() {
    const engine::PoolUsage u = pools.usage();
    const std::uint64_t free = (u.bytes_budget - u.bytes_used) / kFakeLayout.kv_block_bytes;
    const auto hog = pools.reserve(static_cast<std::int32_t>(free), 0);
    check(hog.has_value(), "free room that cannot be reserved");
    const std::uint64_t before = pools.usage().bytes_used;
    const bool room = cache.extend(1).has_value();  // returned at once
    return room ? before - pools.usage().bytes_used : 0;
  }
  void evict_all() {
    while (evict_one() > 0) {
    }
  }
  bool idle() const {  // everything live is what the forest holds
    const engine::PoolUsage u = pools.usage();
    const engine::PrefixStats s = cache.stats();
    return u.blocks_reserved == 0 && u.states_reserved == 0 &&
           u.bytes_used == s.kv_bytes + s.state_bytes && u.states_live == s.states;
  }

  engine::MemoryPools pools;
  engine::PrefixCache cache;
  engine::SequenceId last_id = 0;
};

inline std::unique_ptr<engine::CachePolicy> branch_policy() {
  return std::make_unique<ScriptedPolicy>(ends_and_branches);
}

}  // namespace cairn::tests
