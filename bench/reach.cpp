// SPDX-License-Identifier: Apache-2.0
// The default rule against every other on every recorded order, at equal bytes: percent of the
// reusable tokens recomputed, and states written. Markdown.
//
// usage: bench_reach [--threads N] [--skip POLICY,...] [--only ORDER,...] FOLDER...
// Exits 1 when the rule is further behind another, or behind the figures in a folder's recipe.csv
// (policy,trace,gb,percent), than the tolerances below.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "bench/arguments.hpp"
#include "bench/tables/orders.hpp"
#include "bench/tables/policy_table.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/simulate/simulator.hpp"

using namespace cairn;
using namespace cairn::bench;

namespace {

constexpr std::array kGigabytes = {0.25, 1.0, 4.0, 16.0, 64.0};
constexpr std::size_t kBudgets = kGigabytes.size();

struct Arguments {
  int threads = 1;
  std::set<std::string> skip, only;
  std::vector<std::string> folders;
};

std::set<std::string> listed(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> out;
  for (std::string each; std::getline(in, each, ',');) out.insert(each);
  return out;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      a.folders.push_back(word);
      continue;
    }
    if (++i >= argc) throw LoadError(word + " takes a value");
    if (word == "--threads") {
      a.threads = bench::whole_number(word, argv[i], 1, 64);
    } else if (word == "--skip") {
      a.skip = listed(argv[i]);
    } else if (word == "--only") {
      a.only = listed(argv[i]);
    } else {
      throw LoadError("unknown option " + word);
    }
  }
  if (a.folders.empty()) throw LoadError("expected a folder of traces");
  return a;
}

struct Cell {
  const Order* order = nullptr;
  std::string policy;
  std::size_t budget = 0;
  engine::ReplayResult result;
};

// What bounds the rule from above: the better of the two rules that save every branch, and the best
// of all others. One that keeps nothing competes with nobody.
struct Rivals {
  const Cell* forest = nullptr;
  const Cell* branch = nullptr;
  const Cell* other = nullptr;
  const Cell* plain_branch = nullptr;
};

bool better(const Cell& a, const Cell* b) {
  return b == nullptr || a.result.share() < b->result.share();
}

Rivals rivals(const std::vector<Cell>& cells, const Order& order, std::size_t budget) {
  Rivals r;
  for (const Cell& c : cells) {
    if (c.order != &order || c.budget != budget) continue;
    if (c.policy == "forest") {
      r.forest = &c;
      continue;
    }
    if (c.policy == "branch") r.plain_branch = &c;
    if (c.policy.rfind("branch", 0) == 0 && better(c, r.branch)) r.branch = &c;
    if (better(c, r.other)) r.other = &c;
  }
  return r;
}

bool behind(const Cell& forest, double theirs, double points, double share) {
  return forest.result.share() > theirs + std::max(points, share * theirs);
}

// Where nothing has to go and branches leave next to nothing to recompute, more states would be
// spent for nothing.
bool writes_too_much(const Rivals& r) {
  const engine::ReplayResult& branch = r.plain_branch->result;
  return branch.evicted == 0 && branch.share() < 0.5 &&
         static_cast<double>(r.forest->result.states_written) >
             1.05 * static_cast<double>(branch.states_written);
}

double per_request(const Cell& c) {
  return static_cast<double>(c.result.states_written) / static_cast<double>(c.order->trace->size());
}

// What the rule was found to reach when it was designed.
const TableCell* promised(const std::vector<TableCell>& recipe, const Cell& forest) {
  for (const TableCell& c : recipe) {
    if (c.trace == forest.order->name && c.gigabytes == kGigabytes[forest.budget]) return &c;
  }
  return nullptr;
}

int print_order(const std::vector<Cell>& cells, const Order& order,
                const std::vector<TableCell>& recipe) {
  std::printf("\n`%s`, %zu requests:\n\n", order.name.c_str(), order.trace->size());
  std::printf(
      "| GB | forest | recipe | branch or branch_path | best other | which | strongest "
      "| states a request: forest, branch |\n|--|--|--|--|--|--|--|--|\n");
  int missed = 0;
  for (std::size_t b = 0; b < kBudgets; ++b) {
    const Rivals r = rivals(cells, order, b);
    const TableCell* recipe_cell = promised(recipe, *r.forest);
    std::string note, recipe_text = "-";
    if (behind(*r.forest, r.branch->result.share(), 0.1, 0.02)) note += " **behind branch**";
    if (behind(*r.forest, r.other->result.share(), 0.5, 0.05)) note += " **behind the best**";
    if (recipe_cell != nullptr) {
      if (behind(*r.forest, recipe_cell->percent, 0.5, 0.05)) note += " **behind the recipe**";
      char text[32];
      std::snprintf(text, sizeof text, "%.2f", recipe_cell->percent);
      recipe_text = text;
    }
    if (writes_too_much(r)) note += " **writes too much**";
    missed += note.empty() ? 0 : 1;
    const bool first = r.forest->result.share() <= r.other->result.share();
    std::printf("| %g | %.2f | %s | %.2f | %.2f | %s | %s%s | %.2f, %.2f |\n", kGigabytes[b],
                r.forest->result.share(), recipe_text.c_str(), r.branch->result.share(),
                r.other->result.share(), r.other->policy.c_str(),
                first ? "forest" : r.other->policy.c_str(), note.c_str(), per_request(*r.forest),
                per_request(*r.plain_branch));
  }
  return missed;
}

int compare(const Arguments& arguments) {
  std::vector<Order> orders = read_orders(arguments.folders);
  std::erase_if(orders, [&](const Order& o) {
    return !arguments.only.empty() && arguments.only.count(o.name) == 0;
  });
  std::vector<Cell> cells;
  for (const Order& order : orders) {
    for (const std::string policy : engine::kComparedPolicies) {
      const bool keeps = policy != "none" && policy != "kv_only";
      if (!keeps || arguments.skip.count(policy) > 0) continue;
      for (std::size_t b = 0; b < kBudgets; ++b) cells.push_back({&order, policy, b, {}});
    }
  }
  side_by_side(cells.size(), arguments.threads, [&](std::size_t i) {
    Cell& c = cells[i];
    auto policy = engine::make_cache_policy(c.policy).take();
    policy->learn_costs({.write = engine::kWriteTokens});
    c.result = replay_trace(*c.order->trace, *policy, kGigabytes[c.budget]);
  });
  std::vector<TableCell> recipe;
  for (const std::string& folder : arguments.folders) {
    const std::string path = folder + "/recipe.csv";
    if (recipe.empty() && std::filesystem::exists(path)) recipe = read_policy_table(path);
  }
  int missed = 0;
  for (const Order& order : orders) missed += print_order(cells, order, recipe);
  std::printf("\n%zu orders, %zu cells, %d of them missed\n", orders.size(),
              orders.size() * kBudgets, missed);
  return missed == 0 && !orders.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return compare(parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
}
