// SPDX-License-Identifier: Apache-2.0
// The disk tier at the sizes of Qwen3.5-0.8B (states of 20.2 MB, 12,288 bytes a token):
//   bench_disk DIR
// Writes and reads states with their KV, and opens a store of 10,000 small entries. DIR is made and
// removed.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "engine/cache/disk_store.hpp"

namespace {

using namespace cairn;
using namespace cairn::engine;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void print_rate(const char* what, std::uint64_t bytes, double seconds, int times) {
  std::printf("%-44s %8.1f ms  %8.1f MB/s\n", what, 1e3 * seconds / times,
              1e-6 * static_cast<double>(bytes) / seconds);
}

DiskOptions options_for(const std::string& dir, model::MemoryLayout layout) {
  DiskOptions options;
  options.dir = dir;
  options.max_bytes = std::uint64_t{1} << 40U;
  options.layout = layout;
  return options;
}

std::vector<std::int32_t> prompt(std::mt19937& random, std::size_t tokens) {
  std::vector<std::int32_t> out(tokens);
  for (auto& t : out) t = static_cast<std::int32_t>(random() % 150'000);
  return out;
}

std::unique_ptr<DiskStore> open_or_exit(const DiskOptions& options) {
  auto store = DiskStore::open(options);
  if (store) return store.take();
  std::fprintf(stderr, "%s\n", store.error().message.c_str());
  std::exit(1);
}

/// Puts and reads `count` prompts of `tokens` tokens.
void time_states(const std::string& dir, std::size_t tokens, int count) {
  const model::MemoryLayout layout{.kv_block_bytes = 196'608, .state_bytes = 20'201'472};
  std::mt19937 random(1);
  std::vector<std::byte> state(layout.state_bytes, std::byte{3});
  std::vector<std::byte> kv((tokens + 15) / 16 * layout.kv_block_bytes, std::byte{5});
  for (auto* bytes : {&state, &kv}) {
    for (std::size_t i = 0; i < bytes->size(); i += 7) {
      (*bytes)[i] = static_cast<std::byte>(random() & 0xFF);
    }
  }
  std::vector<std::byte*> blocks;
  for (std::size_t at = 0; at < kv.size(); at += layout.kv_block_bytes) {
    blocks.push_back(kv.data() + at);
  }
  const std::vector<const std::byte*> in(blocks.begin(), blocks.end());
  auto store = open_or_exit(options_for(dir, layout));
  std::vector<std::vector<std::int32_t>> prompts;
  for (int i = 0; i < count; ++i) prompts.push_back(prompt(random, tokens));

  double begin = now();
  for (const auto& p : prompts) {
    if (!store->put({"", p, StateKind::branch, state, in})) std::exit(1);
  }
  const std::string what = "state of " + std::to_string(tokens) + " tokens";
  print_rate((what + ", put and synced").c_str(), store->stat().written_bytes, now() - begin,
             count);
  begin = now();
  for (const auto& p : prompts) {
    const auto match = store->match("", p, static_cast<std::int32_t>(tokens));
    if (!match || !store->read(match->id, {state, blocks, 0})) std::exit(1);
  }
  print_rate((what + ", read from the page cache").c_str(), store->stat().read_bytes, now() - begin,
             count);
  if (!store->purge()) std::exit(1);
}

void time_open(const std::string& dir, int entries) {
  const model::MemoryLayout layout{.kv_block_bytes = 512, .state_bytes = 1024};
  std::mt19937 random(2);
  const std::vector<std::byte> state(layout.state_bytes);
  const std::vector<std::byte> block(layout.kv_block_bytes);
  std::vector<std::vector<std::int32_t>> prompts;
  double begin = now();
  {
    auto store = open_or_exit(options_for(dir, layout));
    for (int i = 0; i < entries; ++i) {
      prompts.push_back(prompt(random, 500));
      const std::vector<const std::byte*> in(32, block.data());
      if (!store->put({"", prompts.back(), StateKind::branch, state, in})) std::exit(1);
    }
  }
  std::printf("%-44s %8.1f s\n", (std::to_string(entries) + " small entries written").c_str(),
              now() - begin);
  begin = now();
  auto store = open_or_exit(options_for(dir, layout));
  std::printf("%-44s %8.1f ms\n", "opened again", 1e3 * (now() - begin));
  begin = now();
  std::int64_t found = 0;
  for (const auto& p : prompts) found += store->match("", p, 500)->position;
  std::printf("%-44s %8.2f us\n", "a lookup of 500 tokens", 1e6 * (now() - begin) / entries);
  if (found != 500LL * entries) std::exit(1);
}

/// What every request pays for the tier: a long prompt that is there, and one that is not.
void time_lookups(const std::string& dir) {
  constexpr std::int32_t kTokens = 8000;
  constexpr int kPrompts = 100;
  constexpr int kRounds = 10;
  const model::MemoryLayout layout{.kv_block_bytes = 512, .state_bytes = 1024};
  std::mt19937 random(3);
  const std::vector<std::byte> state(layout.state_bytes);
  const std::vector<std::byte> block(layout.kv_block_bytes);
  const std::vector<const std::byte*> in(kTokens / 16, block.data());
  auto store = open_or_exit(options_for(dir, layout));
  std::vector<std::vector<std::int32_t>> prompts, others;
  for (int i = 0; i < kPrompts; ++i) {
    prompts.push_back(prompt(random, kTokens));
    others.push_back(prompt(random, kTokens));
    if (!store->put({"", prompts.back(), StateKind::branch, state, in})) std::exit(1);
  }
  const auto time = [&](const char* what, const auto& list, std::int32_t expected) {
    const double begin = now();
    for (int round = 0; round < kRounds; ++round) {
      for (const auto& p : list) {
        const auto match = store->match("", p, kTokens);
        if ((match ? match->position : 0) != expected) std::exit(1);
      }
    }
    std::printf("%-44s %8.2f us\n", what, 1e6 * (now() - begin) / (kRounds * kPrompts));
  };
  time("a lookup of 8,000 tokens that are there", prompts, kTokens);
  time("a lookup of 8,000 tokens that are not", others, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_disk DIR\n");
    return 2;
  }
  const std::string dir = argv[1];
  time_states(dir, 16, 20);
  time_states(dir, 2000, 10);
  std::filesystem::remove_all(dir);
  time_open(dir, 10'000);
  std::filesystem::remove_all(dir);
  time_lookups(dir);
  std::filesystem::remove_all(dir);
  return 0;
}
