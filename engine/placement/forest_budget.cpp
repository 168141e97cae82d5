// SPDX-License-Identifier: Apache-2.0
// The best use of a budget of bytes: the price at which the optimum changes from too many bytes to
// few enough, a splice of the two optima at that price, and greedy filling of what is left.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

#include "engine/placement/forest_solver.hpp"

namespace cairn::engine {
namespace {

constexpr int kMaxSolves = 200;
constexpr double kSame = 1e-13;               // relative: two Lagrangian values are one
constexpr std::int64_t kFillSteps = 1 << 28;  // about a second; then what is left stays unused

std::string shown(double bytes) {
  std::array<char, 32> text{};
  return {text.data(),
          std::to_chars(text.data(), text.data() + text.size(), bytes, std::chars_format::fixed, 0)
              .ptr};
}

}  // namespace

class BudgetSearch {
 public:
  using Holds = ForestSolver::Holds;
  using Vertex = ForestSolver::Vertex;

  BudgetSearch(ForestSolver& solver, double budget) : solver_(solver), budget_(budget) {}

  Result<ForestPlan> run() {
    fits_ = priced(pinned_only(), 0);
    if (fits_.plan.bytes > budget_) {
      return Error{ErrorCode::bad_request,
                   "the pinned states and their KV take " + shown(fits_.plan.bytes) +
                       " bytes, more than the budget of " + shown(budget_),
                   "budget_bytes"};
    }
    over_ = priced(solver_.holds_at(0), 0);
    if (over_.plan.bytes <= budget_) {
      over_.plan.bound = over_.plan.cost;
      return std::move(over_.plan);
    }
    find_price();
    Holds best = spliced(fits_, over_);
    fill(best);
    ForestPlan plan = solver_.plan_of(best);
    plan.price = price_;
    plan.bound = std::min(bound_, plan.cost);  // equal but for rounding
    return plan;
  }

 private:
  struct Candidate {
    Holds holds;
    ForestPlan plan;
  };

  Candidate priced(Holds holds, double price) const {
    Candidate c{std::move(holds), {}};
    c.plan = solver_.plan_of(c.holds);
    c.plan.price = price;
    return c;
  }

  Holds pinned_only() const {
    Holds holds;
    for (const Vertex& v : solver_.vertices_) holds.push_back(v.pinned ? 1 : 0);
    return holds;
  }

  // At it no byte beyond the pinned ones can earn its keep.
  double prohibitive_price() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Vertex& v : solver_.vertices_) {
      if (v.state_bytes > 0) least = std::min(least, v.state_bytes);
      if (v.edge_bytes > 0) least = std::min(least, v.edge_bytes);
    }
    const double most = std::numeric_limits<double>::max() / 4 / solver_.total_bytes_;
    return std::min(most, 2 * fits_.plan.cost / least);
  }

  void note(double price, const ForestPlan& plan) {
    const double bound = plan.cost + price * (plan.bytes - budget_);
    if (bound <= bound_) return;
    bound_ = bound;
    price_ = price;
  }

  // L(price) - price * budget is the least of one line per plan. `over_` and `fits_` are lines that
  // rise and fall; where they cross lies the maximum, or a plan below both replaces one of them.
  // Every other step halves the interval of log prices instead, so that neither end stays behind.
  void find_price() {
    bound_ = 0;
    note(0, over_.plan);
    double low = 0;
    double high = prohibitive_price();
    take(high, low, high);
    for (int i = 0; i < kMaxSolves; ++i) {
      const double spread = over_.plan.bytes - fits_.plan.bytes;
      const double crossing = (fits_.plan.cost - over_.plan.cost) / spread;
      const bool halve = i % 2 == 1;
      const double price = halve ? std::sqrt(std::max(low, high * 0x1p-60)) * std::sqrt(high)
                                 : std::clamp(crossing, low, high);
      if (!(price > low && price < high) && halve) continue;
      const double lines = std::min(fits_.plan.cost + price * fits_.plan.bytes,
                                    over_.plan.cost + price * over_.plan.bytes);
      const double found = take(price, low, high);
      if (!halve && found >= lines * (1 - kSame)) return;
    }
  }

  double take(double price, double& low, double& high) {
    Candidate c = priced(solver_.holds_at(price), price);
    note(price, c.plan);
    const double value = c.plan.lagrangian();
    if (c.plan.bytes > budget_) {
      low = price;
      over_ = std::move(c);
    } else {
      high = price;
      fits_ = std::move(c);
    }
    return value;
  }

  // Of all plans that follow one of the two before some rank and the other from it on, the cheapest
  // that fits. When both are optimal at one price and the forest is a chain with free KV, this is
  // the optimum for any number of states between theirs: some cut falls where a segment of one plan
  // lies inside a segment of the other, and exchanging their ends there costs nothing (quadrangle
  // inequality).
  Holds spliced(const Candidate& fits, const Candidate& over) const {
    Holds best = fits.holds;
    double cost = fits.plan.cost;
    for (const auto& [first, second] : {std::pair{&fits, &over}, std::pair{&over, &fits}}) {
      const std::size_t cut = best_cut(*first, *second, cost);
      if (cut > solver_.vertices_.size()) continue;
      best = second->holds;
      std::copy_n(first->holds.begin(), cut, best.begin());
    }
    return best;
  }

  // Moves the cut downwards over the second plan; lowers `cost` to what the best cut costs. More
  // than the number of vertices: no cut fits and is cheaper.
  //
  // At the cut v everything above v follows the first plan already and everything below v still
  // follows the second, so v's part of the cost is known from the plans alone. An edge changes
  // between kept and not at most twice, which makes the whole sweep linear.
  std::size_t best_cut(const Candidate& first, const Candidate& second, double& cost) const {
    const std::vector<Vertex>& vertices = solver_.vertices_;
    const std::vector<double> served = served_by(second.holds);
    std::vector<double> near(vertices.size());  // depth of the first plan's state at or above
    std::vector<std::int32_t> needs = needs_of(second.holds);
    double now = second.plan.cost;
    double bytes = second.plan.bytes;
    std::size_t best = vertices.size() + 1;
    for (std::size_t r = 0; r < vertices.size(); ++r) {
      const Vertex& v = vertices[r];
      const double above = v.parent < 0 ? 0 : near[static_cast<std::size_t>(v.parent)];
      near[r] = first.holds[r] != 0 ? v.depth : above;
      if (first.holds[r] == second.holds[r]) continue;
      const double saved = served[r] * solver_.cost_.between(above, v.depth);
      const int by = first.holds[r] != 0 ? 1 : -1;
      now -= by * saved;
      bytes += by * v.state_bytes + change_needs(needs, r, by);
      if (bytes <= budget_ && now < cost) {
        cost = now;
        best = r + 1;
      }
    }
    return best;
  }

  // Demand whose nearest state would be v's, if v held one: that of its subtree but for what states
  // below serve.
  std::vector<double> served_by(const Holds& holds) const {
    const std::vector<Vertex>& vertices = solver_.vertices_;
    std::vector<double> served(vertices.size(), 0);
    for (std::size_t r = vertices.size(); r-- > 0;) {
      served[r] += vertices[r].demand;
      const std::int32_t parent = vertices[r].parent;
      if (parent >= 0 && holds[r] == 0) served[static_cast<std::size_t>(parent)] += served[r];
    }
    return served;
  }

  // How many keep a node's edge: its own state and every child whose edge is kept.
  std::vector<std::int32_t> needs_of(const Holds& holds) const {
    std::vector<std::int32_t> needs(holds.begin(), holds.end());
    for (std::size_t r = needs.size(); r-- > 0;) {
      const std::int32_t parent = solver_.vertices_[r].parent;
      if (parent >= 0 && needs[r] > 0) ++needs[static_cast<std::size_t>(parent)];
    }
    return needs;
  }

  // A state comes to or leaves v; returns the change of KV bytes.
  double change_needs(std::vector<std::int32_t>& needs, std::size_t rank, std::int32_t by) const {
    double bytes = 0;
    for (std::size_t r = rank;;) {
      const std::int32_t before = needs[r];
      needs[r] += by;
      if ((before == 0) == (needs[r] == 0)) return bytes;
      const Vertex& v = solver_.vertices_[r];
      bytes += by * v.edge_bytes;
      if (v.parent < 0) return bytes;
      r = static_cast<std::size_t>(v.parent);
    }
  }

  struct Offer {
    double density = 0;  // saved seconds per byte when it was looked at
    std::int32_t rank = 0;
    bool operator<(const Offer& o) const {
      return density != o.density ? density < o.density : rank > o.rank;
    }
  };

  // Adds the state that saves most per byte as long as one fits. Savings only fall as states are
  // added, so an offer is looked at again when it comes up; bytes fall only where KV has become
  // shared, and those nodes are offered anew.
  void fill(Holds& holds) {
    bytes_ = solver_.plan_of(holds).bytes;
    served_ = served_by(holds);
    needs_ = needs_of(holds);
    steps_ = 0;
    for (bool added = true; added && steps_ < kFillSteps;) {
      added = false;
      std::priority_queue<Offer> offers({}, all_offers(holds));
      while (!offers.empty() && steps_ < kFillSteps) {
        const auto r = static_cast<std::size_t>(offers.top().rank);
        offers.pop();
        const auto [offer, bytes] = look_at(holds, r);
        if (!(offer.density > 0) || bytes_ + bytes > budget_) continue;
        if (!offers.empty() && offer < offers.top()) {
          offers.push(offer);
          continue;
        }
        for (const std::int32_t nearby : hold(holds, r)) {
          const Offer again = look_at(holds, static_cast<std::size_t>(nearby)).first;
          if (again.density > 0) offers.push(again);
        }
        added = true;
      }
    }
  }

  // In one pass from the roots, where look_at would walk up from every node.
  std::vector<Offer> all_offers(const Holds& holds) const {
    const std::vector<Vertex>& vertices = solver_.vertices_;
    std::vector<double> near(vertices.size()), unkept(vertices.size());
    std::vector<Offer> offers;
    for (std::size_t r = 0; r < vertices.size(); ++r) {
      const Vertex& v = vertices[r];
      const auto parent = static_cast<std::size_t>(std::max(v.parent, 0));
      const double above = v.parent < 0 ? 0 : near[parent];
      near[r] = holds[r] != 0 ? v.depth : above;
      if (needs_[r] == 0) unkept[r] = v.edge_bytes + (v.parent < 0 ? 0 : unkept[parent]);
      if (holds[r] != 0 || !v.can_hold) continue;
      const double saved = served_[r] * solver_.cost_.between(above, v.depth);
      if (!(saved > 0) || bytes_ + v.state_bytes + unkept[r] > budget_) continue;
      offers.push_back({saved / (v.state_bytes + unkept[r]), static_cast<std::int32_t>(r)});
    }
    return offers;
  }

  // The offer, and the bytes that go with it.
  std::pair<Offer, double> look_at(const Holds& holds, std::size_t rank) {
    const std::vector<Vertex>& vertices = solver_.vertices_;
    const Vertex& v = vertices[rank];
    Offer offer{0, static_cast<std::int32_t>(rank)};
    if (holds[rank] != 0 || !v.can_hold) return {offer, 0};
    double bytes = v.state_bytes;
    double near = 0;
    for (std::int32_t r = offer.rank; r >= 0; r = vertices[static_cast<std::size_t>(r)].parent) {
      const auto at = static_cast<std::size_t>(r);
      ++steps_;
      if (holds[at] != 0) {
        near = vertices[at].depth;
        break;
      }
      if (needs_[at] == 0) bytes += vertices[at].edge_bytes;
    }
    const double saved = served_[rank] * solver_.cost_.between(near, v.depth);
    if (saved > 0) offer.density = saved / bytes;
    return {offer, bytes};
  }

  // Returns the nodes whose offers have become cheaper by more than this one's own edge can tell:
  // those on the newly kept path and their children.
  std::vector<std::int32_t> hold(Holds& holds, std::size_t rank) {
    const std::vector<Vertex>& vertices = solver_.vertices_;
    std::vector<std::int32_t> cheaper;
    for (auto r = static_cast<std::int32_t>(rank); r >= 0;) {
      const auto at = static_cast<std::size_t>(r);
      if (needs_[at] > 0) break;
      cheaper.push_back(r);
      const std::int32_t end = r + vertices[at].size;
      for (std::int32_t c = r + 1; c < end; c += vertices[static_cast<std::size_t>(c)].size) {
        cheaper.push_back(c);
      }
      r = vertices[at].parent;
    }
    holds[rank] = 1;
    bytes_ += vertices[rank].state_bytes + change_needs(needs_, rank, 1);
    const double taken = served_[rank];
    for (std::int32_t r = vertices[rank].parent; r >= 0;) {
      const auto at = static_cast<std::size_t>(r);
      ++steps_;
      served_[at] -= taken;
      if (served_[at] < 1e-12 * vertices[at].mass) served_[at] = 0;  // what rounding left behind
      if (holds[at] != 0) break;
      r = vertices[at].parent;
    }
    return cheaper;
  }

  ForestSolver& solver_;
  double budget_;
  Candidate fits_, over_;
  double bound_ = 0;
  double price_ = 0;

  // While filling.
  double bytes_ = 0;
  std::vector<double> served_;
  std::vector<std::int32_t> needs_;
  std::int64_t steps_ = 0;
};

Result<ForestPlan> ForestSolver::solve_within(double budget_bytes) {
  return BudgetSearch(*this, budget_bytes).run();
}

}  // namespace cairn::engine
