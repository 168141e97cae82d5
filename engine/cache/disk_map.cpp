// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_map.hpp"

#include <xxhash.h>

#include <algorithm>

#include "base/check.hpp"
#include "model/net/backend.hpp"

namespace cairn::engine {
namespace {

constexpr std::size_t kBlock = model::kBlockTokens;

std::uint64_t root_key(std::string_view scope) { return XXH3_64bits(scope.data(), scope.size()); }

// `tokens` begins with a whole block; the key before it makes the new one stand for all before.
std::uint64_t block_key(std::uint64_t before, std::span<const std::int32_t> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), kBlock * sizeof(std::int32_t), before);
}

bool starts_with(std::span<const std::int32_t> tokens, std::span<const std::int32_t> start) {
  return tokens.size() >= start.size() && std::equal(start.begin(), start.end(), tokens.begin());
}

template <class Map, class Value>
void erase_one(Map& map, std::uint64_t key, const Value& value) {
  const auto [begin, end] = map.equal_range(key);
  const auto it = std::find_if(begin, end, [&](const auto& e) { return e.second == value; });
  if (it != end) map.erase(it);
}

}  // namespace

const DiskMap::Node& DiskMap::node(DiskId id) const {
  const auto it = segments_.find(id);
  check(it != segments_.end(), "a chain names a segment that is not there");
  return it->second;
}

const DiskStateInfo* DiskMap::state(DiskId id) const {
  const auto it = states_.find(id);
  return it == states_.end() ? nullptr : &it->second;
}

std::vector<DiskId> DiskMap::segment_ids() const {
  std::vector<DiskId> ids;
  ids.reserve(segments_.size());
  for (const auto& [id, n] : segments_) ids.push_back(id);
  return ids;
}

std::uint64_t DiskMap::key_of(std::string_view scope, ChainEnd end) const {
  return end.segment == 0 ? root_key(scope) : node(end.segment).keys[end.blocks - 1];
}

std::optional<ChainEnd> DiskMap::next_block(std::string_view scope, ChainEnd at, std::uint64_t key,
                                            std::span<const std::int32_t> tokens) const {
  const auto [begin, end] = blocks_by_key_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    const ChainEnd block = it->second;
    const Node& n = node(block.segment);
    const ChainEnd before =
        block.blocks == 1 ? n.data.parent : ChainEnd{block.segment, block.blocks - 1};
    const auto own = std::span(n.data.tokens).subspan((block.blocks - 1) * kBlock, kBlock);
    if (before == at && n.data.scope == scope && starts_with(tokens, own)) return block;
  }
  return std::nullopt;
}

// Follows `tokens` as far as the blocks are here, and visits the ends of chains on the way on which
// something may end. A block has one place: inside a segment the next one is compared, and only
// where the path leaves it are keys looked up.
template <class Visit>
ChainEnd DiskMap::walk(std::string_view scope, std::span<const std::int32_t> tokens,
                       const Visit& visit) const {
  ChainEnd at;
  const Node* n = nullptr;
  std::uint64_t key = root_key(scope);
  visit(at, key, tokens);
  for (; tokens.size() >= kBlock; tokens = tokens.subspan(kBlock)) {
    const std::size_t own = at.blocks * kBlock;
    if (n != nullptr && at.blocks < n->blocks() &&
        starts_with(tokens, std::span(n->data.tokens).subspan(own, kBlock))) {
      ++at.blocks;
    } else if (n != nullptr && n->refs[at.blocks - 1] == 0) {
      break;  // no other segment begins here
    } else {
      const auto next = next_block(scope, at, block_key(key, tokens), tokens);
      if (!next) break;
      at = *next;
      n = &node(at.segment);
    }
    key = n->keys[at.blocks - 1];
    if (n->refs[at.blocks - 1] > 0) visit(at, key, tokens.subspan(kBlock));
  }
  return at;
}

ChainEnd DiskMap::match_chain(std::string_view scope, std::span<const std::int32_t> tokens) const {
  return walk(scope, tokens, [](auto&&...) {});
}

// The state on this chain's end whose tail is the longest start of `rest`.
const DiskStateInfo* DiskMap::best_at(std::string_view scope, ChainEnd at, std::uint64_t key,
                                      std::span<const std::int32_t> rest) const {
  const DiskStateInfo* best = nullptr;
  const auto [begin, end] = states_by_key_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    const DiskStateInfo& s = states_.at(it->second);
    if (s.chain != at || s.scope != scope || !starts_with(rest, s.tail)) continue;
    if (best == nullptr || s.position > best->position) best = &s;
  }
  return best;
}

const DiskStateInfo* DiskMap::match(std::string_view scope, std::span<const std::int32_t> tokens,
                                    std::int32_t max_position) const {
  const auto allowed =
      tokens.first(std::min(tokens.size(), static_cast<std::size_t>(std::max(max_position, 0))));
  const DiskStateInfo* best = nullptr;
  walk(scope, allowed, [&](ChainEnd at, std::uint64_t key, std::span<const std::int32_t> rest) {
    if (const DiskStateInfo* found = best_at(scope, at, key, rest)) best = found;
  });
  return best;
}

const DiskStateInfo* DiskMap::find(std::string_view scope,
                                   std::span<const std::int32_t> tokens) const {
  const auto position = static_cast<std::int32_t>(tokens.size());
  const DiskStateInfo* found = match(scope, tokens, position);
  return found != nullptr && found->position == position ? found : nullptr;
}

const DiskStateInfo* DiskMap::above(const DiskStateInfo& state, const DiskStateInfo* extra) const {
  const DiskStateInfo* best = nullptr;
  std::span<const std::int32_t> behind = state.tail;  // the path's next tokens, at most a block
  ChainEnd at = state.chain;
  const auto consider = [&](const DiskStateInfo& s) {
    if (s.chain != at || s.scope != state.scope || !starts_with(behind, s.tail)) return;
    if (s.position < state.position && (best == nullptr || s.position > best->position)) best = &s;
  };
  const Node* n = nullptr;
  while (true) {
    if (at.segment != 0 && (n == nullptr || n->data.id != at.segment)) n = &node(at.segment);
    if (extra != nullptr) consider(*extra);
    if (at.segment == 0 || n->refs[at.blocks - 1] > 0) {
      const auto [begin, end] = states_by_key_.equal_range(key_of(state.scope, at));
      for (auto it = begin; it != end; ++it) consider(states_.at(it->second));
    }
    if (best != nullptr || at.segment == 0) return best;
    behind = std::span(n->data.tokens).subspan((at.blocks - 1) * kBlock, kBlock);
    at = at.blocks > 1 ? ChainEnd{at.segment, at.blocks - 1} : n->data.parent;
  }
}

std::vector<ChainEnd> DiskMap::path(ChainEnd end) const {
  std::vector<ChainEnd> out;
  for (; end.segment != 0; end = node(end.segment).data.parent) out.push_back(end);
  std::reverse(out.begin(), out.end());
  return out;
}

std::int32_t DiskMap::tokens_in(ChainEnd end) const {
  if (end.segment == 0) return 0;
  return node(end.segment).first_position + static_cast<std::int32_t>(end.blocks * kBlock);
}

std::vector<std::int32_t> DiskMap::tokens_of(const DiskStateInfo& state) const {
  std::vector<std::int32_t> out;
  out.reserve(static_cast<std::size_t>(state.position));
  for (const ChainEnd& part : path(state.chain)) {
    const auto& tokens = node(part.segment).data.tokens;
    const auto used = static_cast<std::ptrdiff_t>(part.blocks * kBlock);
    out.insert(out.end(), tokens.begin(), tokens.begin() + used);
  }
  out.insert(out.end(), state.tail.begin(), state.tail.end());
  return out;
}

bool DiskMap::fits(const DiskSegment& s) const {
  if (s.id == 0 || s.tokens.empty() || s.tokens.size() % kBlock != 0) return false;
  if (segments_.count(s.id) != 0) return false;
  if (s.parent.segment == 0) return s.parent.blocks == 0;
  const auto parent = segments_.find(s.parent.segment);
  return parent != segments_.end() && parent->second.data.scope == s.scope && s.parent.blocks > 0 &&
         s.parent.blocks <= parent->second.blocks();
}

bool DiskMap::fits(const DiskStateInfo& s) const {
  if (s.id == 0 || s.tail.size() >= kBlock || states_.count(s.id) != 0) return false;
  if (s.chain.segment == 0) {
    return s.chain.blocks == 0 && s.position > 0 && std::ssize(s.tail) == s.position;
  }
  const auto end = segments_.find(s.chain.segment);
  return end != segments_.end() && end->second.data.scope == s.scope && s.chain.blocks > 0 &&
         s.chain.blocks <= end->second.blocks() &&
         tokens_in(s.chain) + std::ssize(s.tail) == s.position;
}

void DiskMap::add(DiskSegment segment) {
  check(fits(segment), "a segment that does not continue its parent");
  Node n;
  n.first_position = tokens_in(segment.parent);
  n.refs.resize(segment.tokens.size() / kBlock);
  std::uint64_t key = key_of(segment.scope, segment.parent);
  for (std::uint32_t b = 0; b < n.blocks(); ++b) {
    key = block_key(key, std::span(segment.tokens).subspan(b * kBlock));
    n.keys.push_back(key);
    blocks_by_key_.emplace(key, ChainEnd{segment.id, b + 1});
  }
  blocks_ += n.blocks();
  pin(segment.parent);
  const DiskId id = segment.id;
  n.data = std::move(segment);
  segments_.emplace(id, std::move(n));
}

void DiskMap::add(DiskStateInfo state) {
  check(fits(state), "a state that does not end its chain");
  pin(state.chain);
  states_by_key_.emplace(key_of(state.scope, state.chain), state.id);
  const DiskId id = state.id;
  states_.emplace(id, std::move(state));
}

void DiskMap::touch(DiskId state, std::int64_t now_ms) { states_.at(state).last_use_ms = now_ms; }

void DiskMap::predict(DiskId state, double rate, std::uint64_t rated_at) {
  DiskStateInfo& s = states_.at(state);
  s.rate = rate;
  s.rated_at = rated_at;
}

void DiskMap::pin(ChainEnd end) {
  if (end.segment != 0) ++node(end.segment).refs[end.blocks - 1];
}

DiskFreed DiskMap::unpin(ChainEnd end) {
  DiskFreed freed;
  release(end, freed);
  return freed;
}

DiskFreed DiskMap::remove(DiskId id) {
  const auto it = states_.find(id);
  check(it != states_.end(), "a state is removed that is not there");
  const ChainEnd chain = it->second.chain;
  erase_one(states_by_key_, key_of(it->second.scope, chain), id);
  states_.erase(it);
  return unpin(chain);
}

void DiskMap::forget_blocks(const Node& n, std::uint32_t from) {
  for (std::uint32_t b = from; b < n.keys.size(); ++b) {
    erase_one(blocks_by_key_, n.keys[b], ChainEnd{n.data.id, b + 1});
    --blocks_;
  }
}

// One need of a chain's end less: cuts what nobody needs any more, parents included.
void DiskMap::release(ChainEnd end, DiskFreed& freed) {
  while (end.segment != 0) {
    Node& n = node(end.segment);
    check(n.refs[end.blocks - 1] > 0, "a block is released more often than it was needed");
    --n.refs[end.blocks - 1];
    const std::uint32_t before = n.blocks();
    while (!n.refs.empty() && n.refs.back() == 0) n.refs.pop_back();
    if (n.blocks() == before) return;
    forget_blocks(n, n.blocks());
    n.keys.resize(n.blocks());
    n.data.tokens.resize(n.blocks() * kBlock);
    if (!n.refs.empty()) {
      freed.cuts.push_back({end.segment, n.blocks()});
      return;
    }
    freed.segments.push_back(end.segment);
    const ChainEnd parent = n.data.parent;
    segments_.erase(end.segment);
    end = parent;
  }
}

DiskFreed DiskMap::remove_unused() {
  // A pin and its release free what nothing else needs. Children have the higher ids: they go
  // first.
  std::vector<DiskId> ids = segment_ids();
  std::sort(ids.rbegin(), ids.rend());
  DiskFreed freed;
  for (const DiskId id : ids) {
    const auto it = segments_.find(id);
    if (it == segments_.end()) continue;
    const ChainEnd end{id, it->second.blocks()};
    pin(end);
    release(end, freed);
  }
  // A segment may be cut by a child's end first and go later.
  std::erase_if(freed.cuts, [this](const ChainEnd& c) { return segments_.count(c.segment) == 0; });
  return freed;
}

std::vector<DiskId> DiskMap::states_beyond(ChainEnd end) const {
  std::vector<DiskId> out;
  for (const auto& [id, s] : states_) {
    for (ChainEnd at = s.chain; at.segment != 0; at = node(at.segment).data.parent) {
      if (at.segment == end.segment && at.blocks > end.blocks) {
        out.push_back(id);
        break;
      }
    }
  }
  return out;
}

DiskMap::Gain DiskMap::gain_of(const DiskStateInfo& state) const {
  Gain gain;
  ChainEnd end = state.chain;
  while (end.segment != 0) {
    const Node& n = node(end.segment);
    if (end.blocks != n.blocks() || n.refs[end.blocks - 1] > 1) return gain;
    std::uint32_t kept = end.blocks - 1;
    while (kept > 0 && n.refs[kept - 1] == 0) --kept;
    gain.blocks += end.blocks - kept;
    if (kept > 0) return gain;
    gain.segments.push_back(end.segment);
    end = n.data.parent;
  }
  return gain;
}

DiskMap::Gain DiskMap::Preview::remove(DiskId id) {
  Gain gain;
  ChainEnd end = map_.states_.at(id).chain;
  while (end.segment != 0) {
    const Node& n = map_.node(end.segment);
    auto& refs = refs_.try_emplace(end.segment, n.refs).first->second;
    --refs[end.blocks - 1];
    const std::size_t before = refs.size();
    while (!refs.empty() && refs.back() == 0) refs.pop_back();
    gain.blocks += before - refs.size();
    if (!refs.empty()) return gain;
    gain.segments.push_back(end.segment);
    end = n.data.parent;
  }
  return gain;
}

}  // namespace cairn::engine
