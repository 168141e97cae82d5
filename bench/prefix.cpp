// SPDX-License-Identifier: Apache-2.0
// Times of the prefix cache at the sizes of Qwen3.5-0.8B (no data is touched, so it needs no
// memory). Prints one line per fact; exits 1 when one is missed.
//
// usage: bench_prefix [long] [pressure] [nodes] [points]   (all of them when none is named)
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/timing.hpp"
#include "engine/placement/forest_policy.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "engine/prefix/radix_forest.hpp"

using namespace cairn;
using namespace cairn::engine;
using cairn::bench::processor_seconds;

namespace {

constexpr model::MemoryLayout kLayout{.kv_block_bytes = 196'608, .state_bytes = 20'201'472};
constexpr ByteCosts kCosts{.state_bytes = kLayout.state_bytes,
                           .kv_bytes_per_token = kLayout.kv_block_bytes / model::kBlockTokens,
                           .kv_block = model::kBlockTokens};

int missed = 0;

void fact(const char* what, double us, double limit_us) {
  const bool ok = us <= limit_us;
  missed += ok ? 0 : 1;
  std::printf("%-58s %9.1f us  (at most %.0f us)%s\n", what, us, limit_us, ok ? "" : "  MISSED");
}

using Tokens = std::vector<std::int32_t>;

Tokens random_tokens(std::mt19937& rng, std::int32_t n) {
  Tokens t;
  for (std::int32_t i = 0; i < n; ++i) t.push_back(static_cast<std::int32_t>(rng() % 150'000));
  return t;
}

// Branches and ends, least recently used first.
class BranchAndEnd final : public CachePolicy {
 public:
  std::string name() const override { return "bench"; }
  void observe(const RequestView& q) override {
    if (q.resume > 0) use(q.resume_node);
  }
  std::vector<Placement> place(const RequestView& q) override {
    std::vector<Placement> out;
    if (q.overlap > q.resume && q.overlap < q.length - 1) {
      out.push_back({q.overlap, StateKind::branch});
    }
    if (q.length - 1 > q.resume) out.push_back({q.length - 1, StateKind::prompt_end});
    return out;
  }
  PlanNode least(const Usable& usable) override {
    for (const auto& [key, node] : order_) {
      if (usable(node)) return node;
    }
    return kNoPlanNode;
  }
  void changed(const TreeOp& op) override {
    if (op.type == TreeOp::Type::claim) use(op.node);
  }
  void changing(const TreeOp& op) override {
    if (op.type == TreeOp::Type::release) forget(op.node);
  }

 private:
  void use(PlanNode node) {
    forget(node);
    if (keys_.size() <= node) keys_.resize(tree().slots());
    keys_[node] = ++uses_;
    order_.emplace(uses_, node);
  }
  void forget(PlanNode node) {
    if (node < keys_.size() && keys_[node] > 0) order_.erase(std::exchange(keys_[node], 0));
  }

  std::uint64_t uses_ = 0;
  std::map<std::uint64_t, PlanNode> order_;
  std::vector<std::uint64_t> keys_;  // by node
};

struct Timed {
  double lookup = 0, publish = 0;
  std::int32_t resume = 0;
};

// A request without a model: what it saves holds the blocks it was given.
Timed serve(PrefixCache& cache, SequenceId id, const Tokens& tokens) {
  LookupRequest request;
  request.id = id;
  request.tokens = std::make_shared<const Tokens>(tokens);
  request.max_new = 64;
  Timed t;
  const double start = processor_seconds();
  LookupResult result = cache.lookup(request);
  t.lookup = processor_seconds() - start;
  if (!std::holds_alternative<Lease>(result)) return t;
  Lease& lease = std::get<Lease>(result);
  t.resume = lease.resume;
  std::vector<KvBlockRef> table = lease.prefix_blocks;
  if (lease.resume % model::kBlockTokens != 0) table.pop_back();
  const auto length = static_cast<std::int32_t>(tokens.size());
  while (static_cast<std::int32_t>(table.size()) < blocks_for(length)) {
    table.push_back(lease.reservation.take_block());
  }
  for (PlannedSave& s : lease.saves) {
    const auto blocks = table.begin() + blocks_for(s.position);
    SavedState saved{id,     request.tokens,     s.position,
                     s.kind, std::move(s.state), std::vector<KvBlockRef>(table.begin(), blocks),
                     {}};
    const double before = processor_seconds();
    cache.publish(std::move(saved));
    t.publish += processor_seconds() - before;
  }
  cache.end(id);
  return t;
}

void long_prompts() {
  std::mt19937 rng(1);
  const Tokens document = random_tokens(rng, 99'000);
  const auto with_question = [&] {
    Tokens t = document;
    const Tokens q = random_tokens(rng, 1000);
    t.insert(t.end(), q.begin(), q.end());
    return t;
  };
  MemoryPools pools(kLayout, 8ull << 30);
  PrefixCache cache(pools, std::make_unique<BranchAndEnd>());
  SequenceId id = 0;
  for (int i = 0; i < 20; ++i) serve(cache, ++id, with_question());
  double best = 1e9, publish = 1e9;
  for (int i = 0; i < 50; ++i) {
    const Timed t = serve(cache, ++id, with_question());
    if (t.resume != 99'000) continue;
    best = std::min(best, t.lookup);
    publish = std::min(publish, t.publish);
  }
  fact("lookup of 100,000 tokens, resumed at 99,000", best * 1e6, 1000);
  fact("publish of its end", publish * 1e6, 1000);

  RadixForest forest(kCosts);
  for (std::uint64_t i = 1; i <= 2000; ++i) forest.insert(with_question(), i);
  const Tokens prompt = with_question();
  const double match = bench::best_seconds(200, [&] {
    if (forest.match(prompt).overlap != 99'000) ++missed;
  });
  fact("match of 100,000 tokens beside 2,000 other questions", match * 1e6, 100);
}

// Chats of many users under a budget that is always full.
void pressure() {
  std::mt19937 rng(2);
  MemoryPools pools(kLayout, 4ull << 30);
  PrefixCache cache(pools, std::make_unique<BranchAndEnd>());
  const Tokens system = random_tokens(rng, 600);
  std::vector<Tokens> chats(64, system);
  double total = 0, publish = 0, worst = 0;
  int requests = 0;
  for (int i = 0; i < 4000; ++i) {
    Tokens& chat = chats[rng() % chats.size()];
    if (chat.size() > 6000) chat = system;
    const Tokens more = random_tokens(rng, 300);
    chat.insert(chat.end(), more.begin(), more.end());
    const Timed t = serve(cache, static_cast<SequenceId>(i) + 1, chat);
    if (i < 1000) continue;
    total += t.lookup;
    publish += t.publish;
    worst = std::max(worst, t.lookup);
    ++requests;
  }
  const PrefixStats stats = cache.stats();
  std::printf("64 chats in 4 GiB: %lld states, %lld nodes, %llu stored, %llu evicted\n",
              static_cast<long long>(stats.states), static_cast<long long>(stats.nodes),
              static_cast<unsigned long long>(stats.stored),
              static_cast<unsigned long long>(stats.evicted));
  fact("lookup with eviction, mean", total / requests * 1e6, 200);
  fact("lookup with eviction, worst", worst * 1e6, 5000);
  fact("publish, mean a request", publish / requests * 1e6, 200);
}

// Prompts of 8,000 tokens, each a fork of one of 200 documents, until 100,000 places are known.
void many_points() {
  constexpr std::int32_t kLength = 8000;
  constexpr int kPrompts = 52'000;
  std::mt19937 rng(4);
  std::vector<Tokens> documents;
  for (int i = 0; i < 200; ++i) documents.push_back(random_tokens(rng, kLength));
  const auto fork = [&](std::int32_t fresh) {
    Tokens t = documents[rng() % documents.size()];
    t.resize(kLength - fresh - rng() % 2000);
    const Tokens tail = random_tokens(rng, fresh);
    t.insert(t.end(), tail.begin(), tail.end());
    return t;
  };
  MemoryPools pools(kLayout, 16ull << 30);
  PrefixOptions options;
  options.idle_requests = std::numeric_limits<std::uint64_t>::max();
  PrefixCache cache(pools, std::make_unique<ForestPolicy>(), options);
  SequenceId id = 0;
  for (int i = 0; i < kPrompts; ++i) serve(cache, ++id, fork(40));
  std::printf("forest of %lld nodes, %lld states in 16 GiB\n",
              static_cast<long long>(cache.stats().nodes),
              static_cast<long long>(cache.stats().states));
  std::vector<double> lookups;
  for (int i = 0; i < 400; ++i) lookups.push_back(serve(cache, ++id, fork(40)).lookup);
  double mean = 0;
  for (const double t : lookups) mean += t / static_cast<double>(lookups.size());
  std::nth_element(lookups.begin(), lookups.begin() + 200, lookups.end());
  fact("lookup of 8,000 tokens among 100,000 places, median", lookups[200] * 1e6, 200);
  std::printf("%-58s %9.1f us  (with a sweep of all rates every 8 requests)\n", "the same, mean",
              mean * 1e6);

  RadixForest forest(kCosts);
  for (std::uint64_t i = 1; i <= kPrompts; ++i) forest.insert(fork(40), i);
  double match = 1e9;
  for (int i = 0; i < 200; ++i) {
    const Tokens prompt = fork(40);
    const double start = processor_seconds();
    if (forest.match(prompt).overlap < 5000) ++missed;
    match = std::min(match, processor_seconds() - start);
  }
  fact("match of 8,000 tokens beside as many", match * 1e6, 200);
}

void many_nodes() {
  std::mt19937 rng(3);
  RadixForest forest(kCosts);
  std::uint64_t tick = 0;
  std::vector<Tokens> shared;
  for (int i = 0; i < 100; ++i) shared.push_back(random_tokens(rng, 200));
  const double start = processor_seconds();
  int inserts = 0;
  for (; inserts < 300'000; ++inserts) {
    Tokens t = shared[rng() % shared.size()];
    t.resize(50 + rng() % 150);
    const Tokens tail = random_tokens(rng, 20);
    t.insert(t.end(), tail.begin(), tail.end());
    forest.insert(t, ++tick);
    forest.trim({.max_nodes = 200'000, .max_tokens = 64'000'000});
  }
  fact("insert and forget at 200,000 nodes, mean", (processor_seconds() - start) / inserts * 1e6,
       50);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string_view, void (*)()> parts{{"long", long_prompts},
                                                     {"pressure", pressure},
                                                     {"nodes", many_nodes},
                                                     {"points", many_points}};
  for (int i = 1; i < argc; ++i) {
    if (parts.count(argv[i]) > 0) continue;
    std::fprintf(stderr, "usage: %s [long] [pressure] [nodes] [points]\n", argv[0]);
    return 2;
  }
  for (const auto& [name, part] : parts) {
    if (argc == 1 || std::find(argv + 1, argv + argc, name) != argv + argc) part();
  }
  return missed == 0 ? 0 : 1;
}
