// SPDX-License-Identifier: Apache-2.0
// Warm equals cold on the CUDA backend: batches, resumes, saves, a full arena, a disk.
#include <algorithm>

#include "engine/cache/disk_store.hpp"
#include "tests/engine/cuda/server.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/simt/harness/device.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

Tokens text(std::int32_t name, std::int32_t count) {
  Tokens tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((name * 17 + i * i + 5 * i) % 64);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Prompts that share 40 tokens, which end inside a block, and then part.
std::vector<Ask> forks() {
  const Tokens shared = text(1, 40);
  return {
      {.prompt = joined(shared, text(2, 13)), .logprobs = 3, .seed = 1},
      {.prompt = joined(shared, text(3, 30)), .seed = 2},
      {.prompt = joined(shared, text(2, 25)), .logprobs = 3, .seed = 3},
      {.prompt = joined(shared, text(4, 1)), .seed = 4},
      {.prompt = text(5, 20), .logprobs = 3, .seed = 5},
  };
}

// Of forks(), each alone and without a cache.
const std::vector<Told>& cold() {
  static const std::vector<Told> told = [] {
    CudaServer server(64);
    std::vector<Told> all;
    for (const Ask& ask : forks()) all.push_back(server.serve_one(ask, false));
    return all;
  }();
  return told;
}

void require_same(const std::vector<Told>& got, const std::vector<Told>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("request " << i);
    REQUIRE(got[i].end_state == want[i].end_state);
    REQUIRE(got[i].logprobs == want[i].logprobs);
    REQUIRE(got[i].tokens == want[i].tokens);
  }
}

std::int32_t cached(const std::vector<Told>& told) {
  std::int32_t tokens = 0;
  for (const Told& t : told) tokens += t.cached;
  return tokens;
}

}  // namespace

TEST_CASE(
    "the batch loop on the CUDA backend: warm equals cold bit for bit, one by one or together") {
  const std::vector<Ask> asks = forks();
  CudaServer server(64);
  const simt::DeviceCounts before = simt::device_counts();
  std::vector<Told> first;
  for (const Ask& ask : asks) first.push_back(server.serve_one(ask));
  require_same(first, cold());
  CHECK(cached(first) >= 2 * 40);
  CHECK((simt::device_counts() - before).graphs > 0);
  const std::vector<Told> again = server.serve(asks);
  require_same(again, cold());
  CHECK(again[0].cached == 52);  // inside a block
  CHECK(cached(again) > cached(first));
  server.cache.clear();
  CHECK(server.pools.usage().bytes_used == 0);
}

TEST_CASE("the batch loop on the CUDA backend: an arena that is too small for all costs no bit") {
  CudaServer server(9);
  for (int round = 0; round < 2; ++round) require_same(server.serve(forks()), cold());
  CHECK(server.cache.stats().evicted > 0);
  server.cache.verify();
  server.cache.clear();
  CHECK(server.pools.usage().bytes_used == 0);
}

TEST_CASE("states of a CUDA device go to disk and are resumed from in another arena, bit for bit") {
  const TempDir temp;
  engine::DiskOptions options;
  options.dir = temp.file("cache");
  options.max_bytes = 1'000'000'000;
  const Ask ask = forks()[0];
  const auto length = static_cast<std::int32_t>(ask.prompt.size()) - 1;
  {
    CudaServer server(32);
    server.keep_saved = true;
    server.serve_one(ask);
    options.layout = server.backend->layout();
    options.arena = server.arena;
    const auto store = engine::DiskStore::open(options).take();
    const auto end = std::find_if(server.saved.begin(), server.saved.end(),
                                  [&](const auto& s) { return s.position == length; });
    REQUIRE(end != server.saved.end());
    REQUIRE(length % 16 != 0);
    std::vector<const std::byte*> blocks;
    for (const engine::KvBlockRef& b : end->blocks) blocks.push_back(b.data());
    // The answer went on in the last block: only what precedes the state is its own.
    std::vector<std::byte> block(options.layout.kv_block_bytes), tail(block.size());
    server.arena->read(blocks.back(), block);
    server.backend->host_slot_copy()(block.data(), tail.data(), length % 16);
    blocks.back() = tail.data();
    REQUIRE(store->put({.scope = "",
                        .tokens = std::span(ask.prompt).first(static_cast<std::size_t>(length)),
                        .kind = end->kind,
                        .state = {end->state.data(), options.layout.state_bytes},
                        .blocks = blocks}));
    server.saved.clear();
  }
  CudaServer server(32);
  options.arena = server.arena;
  const auto store = engine::DiskStore::open(options).take();
  const auto match = store->match("", ask.prompt, length);
  REQUIRE(match);
  auto room = server.pools.reserve(engine::blocks_for(length), 1).value();
  engine::SavedState loaded;
  loaded.tokens = tests::seq(ask.prompt);
  loaded.position = length;
  loaded.kind = match->kind;
  loaded.state = room.take_state();
  std::vector<std::byte*> blocks;
  while (room.blocks_left() > 0) {
    loaded.blocks.push_back(room.take_block());
    blocks.push_back(loaded.blocks.back().data());
  }
  REQUIRE(store->read(match->id, {{loaded.state.data(), options.layout.state_bytes}, blocks}));
  server.cache.publish(std::move(loaded));
  const Told warm = server.serve_one(ask);
  CHECK(warm.cached == length);
  require_same({warm}, {cold()[0]});
}

TEST_CASE("a lost device ends the batch with DeviceLost, and the engine can be taken down") {
  const simt::WithDevices devices({});
  CudaServer server(32);
  server.serve_one(forks()[4]);
  simt::lose_device(40);
  CHECK_THROWS_AS(server.serve(forks()), DeviceLost);
}
