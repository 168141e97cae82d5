// SPDX-License-Identifier: Apache-2.0
// What the disk tier's books say of paths, against lists of whole prompts.
#include "engine/cache/disk_map.hpp"
#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

bool begins(const Tokens& tokens, const Tokens& start) {
  return start.size() <= tokens.size() && std::equal(start.begin(), start.end(), tokens.begin());
}

/// A map, and the prompt of each of its states.
struct Books {
  DiskMap map;
  std::map<DiskId, Tokens> prompts;
  DiskId next = 1;

  /// As the store does it: what is missing of the prompt's blocks is one new segment.
  DiskStateInfo state_for(const Tokens& tokens, DiskSegment& segment) {
    const auto whole = std::ptrdiff_t(tokens.size() / 16 * 16);
    const ChainEnd shared = map.match_chain("", tokens);
    segment = {
        next++, shared, "", {tokens.begin() + map.tokens_in(shared), tokens.begin() + whole}};
    DiskStateInfo s;
    s.id = next++;
    s.position = std::int32_t(tokens.size());
    s.tail.assign(tokens.begin() + whole, tokens.end());
    const auto blocks = static_cast<std::uint32_t>(segment.tokens.size() / 16);
    s.chain = blocks > 0 ? ChainEnd{segment.id, blocks} : shared;
    return s;
  }
  void add(const Tokens& tokens) {
    DiskSegment segment;
    DiskStateInfo s = state_for(tokens, segment);
    if (!segment.tokens.empty()) map.add(std::move(segment));
    prompts[s.id] = tokens;
    map.add(std::move(s));
  }
  /// The deepest prompt that `tokens` begins with, shorter than `limit`; 0: none.
  std::int32_t deepest(const Tokens& tokens, std::size_t limit) const {
    std::size_t best = 0;
    for (const auto& [id, p] : prompts) {
      if (p.size() < limit && begins(tokens, p)) best = std::max(best, p.size());
    }
    return std::int32_t(best);
  }
};

// Few distinct tokens in long runs, so that prompts begin alike and end anywhere.
Tokens prompt(std::mt19937& random) {
  Tokens out;
  for (std::size_t runs = 1 + random() % 4; runs > 0; --runs) {
    out = joined(out, Tokens(1 + random() % 40, std::int32_t(random() % 2)));
  }
  return out;
}

}  // namespace

TEST_CASE("lookups and the state above each agree with a list of prompts") {
  std::mt19937 random(21);
  Books books;
  for (int step = 0; step < 800; ++step) {
    if (books.prompts.size() > 60) {
      auto it = books.prompts.begin();
      std::advance(it, std::ptrdiff_t(random() % books.prompts.size()));
      books.map.remove(it->first);
      books.prompts.erase(it);
    }
    const Tokens tokens = prompt(random);
    const auto limit = std::int32_t(random() % 100);
    const DiskStateInfo* match = books.map.match("", tokens, limit);
    REQUIRE((match ? match->position : 0) == books.deepest(tokens, std::size_t(limit) + 1));
    if (books.map.find("", tokens) == nullptr) {
      DiskSegment segment;
      const DiskStateInfo extra = books.state_for(tokens, segment);
      for (const auto& [id, p] : books.prompts) {
        const DiskStateInfo* above = books.map.above(books.map.states().at(id), &extra);
        const bool is_above = begins(p, tokens) && tokens.size() < p.size();
        const auto expected =
            std::max(books.deepest(p, p.size()), is_above ? std::int32_t(tokens.size()) : 0);
        REQUIRE((above ? above->position : 0) == expected);
      }
      books.add(tokens);
    }
    for (const auto& [id, p] : books.prompts) {
      const DiskStateInfo* above = books.map.above(books.map.states().at(id), nullptr);
      REQUIRE((above ? above->position : 0) == books.deepest(p, p.size()));
    }
  }
}

TEST_CASE("what removing a state frees is foretold exactly") {
  std::mt19937 random(22);
  for (int round = 0; round < 200; ++round) {
    Books books;
    for (int i = 0; i < 12; ++i) {
      const Tokens tokens = prompt(random);
      if (books.map.find("", tokens) == nullptr) books.add(tokens);
    }
    DiskMap::Preview preview(books.map);
    std::vector<DiskMap::Gain> foretold;
    for (const auto& [id, p] : books.prompts) foretold.push_back(preview.remove(id));
    std::size_t i = 0;
    for (const auto& [id, p] : books.prompts) {
      const DiskMap::Gain alone = books.map.gain_of(books.map.states().at(id));
      const std::uint64_t before = books.map.blocks();
      const DiskFreed freed = books.map.remove(id);
      REQUIRE(alone.blocks == before - books.map.blocks());
      REQUIRE(alone.segments == freed.segments);
      REQUIRE(foretold[i].blocks == alone.blocks);
      REQUIRE(foretold[i++].segments == alone.segments);
    }
    REQUIRE(books.map.blocks() == 0);
  }
}
