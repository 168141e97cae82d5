// SPDX-License-Identifier: Apache-2.0
// What each part of the default rule is worth: percent of the reusable tokens recomputed on every
// recorded order with one part left out at a time, and the difference to the whole rule. Markdown.
//
// usage: bench_leave_one_out [--threads N] FOLDER...
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/arguments.hpp"
#include "bench/tables/orders.hpp"
#include "bench/tables/policy_table.hpp"
#include "engine/placement/forest_policy.hpp"
#include "engine/simulate/simulator.hpp"

using namespace cairn;
using namespace cairn::bench;

namespace {

constexpr std::array kGigabytes = {0.25, 1.0, 4.0, 16.0};
constexpr std::size_t kBudgets = kGigabytes.size();

struct Rule {
  engine::ForestOptions options;
  double write = engine::kWriteTokens;
};
struct Part {
  const char* name;
  void (*leave_out)(Rule& rule);
};

// The first is the whole rule.
const std::array kParts = {
    Part{"whole rule", [](Rule&) {}},
    Part{"no classes of points at all", [](Rule& r) { r.options.demand.classes = false; }},
    Part{"no turns", [](Rule& r) { r.options.demand.turns = false; }},
    Part{"no gaps", [](Rule& r) { r.options.demand.gaps = false; }},
    Part{"no interior positions", [](Rule& r) { r.options.demand.interior = false; }},
    Part{"interior spread evenly", [](Rule& r) { r.options.demand.mixture = false; }},
    Part{"one interior position",
         [](Rule& r) { r.options.interior = r.options.interior_spare = 1; }},
    Part{"no more positions while there is room",
         [](Rule& r) { r.options.interior_spare = r.options.interior; }},
    Part{"interior at any price", [](Rule& r) { r.options.entry = 0; }},
    Part{"known parts get no states back", [](Rule& r) { r.options.known = false; }},
    Part{"free bytes are worth nothing", [](Rule& r) { r.options.byte_worth = 0; }},
    Part{"places forgotten after 2048 ticks", [](Rule& r) { r.options.demand.per_claim = 0; }},
    Part{"no rounding",
         [](Rule& r) { r.options.round_from = std::numeric_limits<std::int32_t>::max(); }},
    Part{"never exact", [](Rule& r) { r.options.exact_below = 0; }},
    Part{"horizon of 16 ticks", [](Rule& r) { r.options.demand.horizon = 16; }},
    Part{"horizon of 256 ticks", [](Rule& r) { r.options.demand.horizon = 256; }},
    Part{"tables never forget", [](Rule& r) { r.options.demand.half_life = 1e12; }},
    Part{"a sweep every 64 ticks", [](Rule& r) { r.options.demand.sweep_every = 64; }},
    Part{"writes cost nothing", [](Rule& r) { r.write = 0; }},
};

using Shares = std::array<std::array<double, kBudgets>, kParts.size()>;

void print_order(const Order& order, const Shares& shares) {
  std::printf("\n`%s`:\n\n| left out |", order.name.c_str());
  for (const double gb : kGigabytes) std::printf(" %g GB |", gb);
  std::printf("\n|--|%s\n",
              [] {
                std::string columns;
                for (std::size_t b = 0; b < kBudgets; ++b) columns += "--|";
                return columns;
              }()
                  .c_str());
  for (std::size_t p = 0; p < kParts.size(); ++p) {
    std::printf("| %s |", kParts[p].name);
    for (std::size_t b = 0; b < kBudgets; ++b) {
      if (p == 0) {
        std::printf(" %.2f |", shares[p][b]);
      } else {
        std::printf(" %.2f (%+.2f) |", shares[p][b], shares[p][b] - shares[0][b]);
      }
    }
    std::printf("\n");
  }
}

// Over all orders and budgets, so that one line tells what a part is worth.
void print_means(const std::vector<Shares>& all) {
  std::printf("\n| left out | mean | worst loss | largest gain |\n|--|--|--|--|\n");
  for (std::size_t p = 1; p < kParts.size(); ++p) {
    double sum = 0, most = 0, least = 0;
    for (const Shares& shares : all) {
      for (std::size_t b = 0; b < kBudgets; ++b) {
        const double d = shares[p][b] - shares[0][b];
        sum += d;
        most = std::max(most, d);
        least = std::min(least, d);
      }
    }
    std::printf("| %s | %+.2f | %+.2f | %+.2f |\n", kParts[p].name,
                sum / static_cast<double>(all.size() * kBudgets), most, least);
  }
}

void tabulate(int threads, const std::vector<std::string>& folders) {
  const std::vector<Order> orders = read_orders(folders);
  std::vector<Shares> shares(orders.size());
  constexpr std::size_t kPerOrder = kParts.size() * kBudgets;
  side_by_side(orders.size() * kPerOrder, threads, [&](std::size_t i) {
    const std::size_t order = i / kPerOrder, part = i % kPerOrder / kBudgets, b = i % kBudgets;
    Rule rule;
    kParts[part].leave_out(rule);
    engine::ForestPolicy policy(rule.options);
    policy.learn_costs({.write = rule.write});
    shares[order][part][b] = replay_trace(*orders[order].trace, policy, kGigabytes[b]).share();
  });
  std::printf("Points above the whole rule, over %zu orders and %zu budgets:\n", orders.size(),
              kBudgets);
  print_means(shares);
  for (std::size_t o = 0; o < orders.size(); ++o) print_order(orders[o], shares[o]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool threaded = argc > 2 && std::strcmp(argv[1], "--threads") == 0;
    const int first = threaded ? 3 : 1;
    if (argc <= first) {
      std::fprintf(stderr, "usage: %s [--threads N] FOLDER...\n", argv[0]);
      return 2;
    }
    tabulate(threaded ? bench::whole_number(argv[1], argv[2], 1, 64) : 1,
             {argv + first, argv + argc});
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
}
