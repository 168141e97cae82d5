// SPDX-License-Identifier: Apache-2.0
// The best use of a budget of bytes: the price at which the optimum changes from too many bytes to
// few enough, a splice of the two optima at that price, and greedy filling of what is left.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/placement/forest_editor.hpp"
#include "engine/placement/forest_solver.hpp"

namespace cairn::engine {
namespace {

constexpr int kMaxSolves = 200;
constexpr double kSame = 1e-13;                 // relative: two Lagrangian values are one
constexpr std::size_t kExchangeWork = 1 << 18;  // nodes times states: some 10 ms of exchanges

std::string shown(double bytes) {
  std::array<char, 32> text{};
  return {text.data(),
          std::to_chars(text.data(), text.data() + text.size(), bytes, std::chars_format::fixed, 0)
              .ptr};
}

}  // namespace

class BudgetSearch {
 public:
  BudgetSearch(ForestSolver& solver, double budget, Effort effort, double byte_worth)
      : solver_(solver),
        layout_(solver.layout()),
        budget_(budget),
        effort_(effort),
        byte_worth_(byte_worth) {}

  Result<ForestPlan> run() {
    fits_ = priced(pinned_only(), 0);
    if (fits_.plan.bytes > budget_) {
      return Error{ErrorCode::bad_request,
                   "the pinned states and their KV take " + shown(fits_.plan.bytes) +
                       " bytes, more than the budget of " + shown(budget_),
                   "budget_bytes"};
    }
    over_ = priced(solver_.holds_at(byte_worth_), byte_worth_);
    if (over_.plan.bytes <= budget_) {
      const double unused = budget_ - over_.plan.bytes;
      over_.plan.bound = std::max(over_.plan.cost - byte_worth_ * unused, 0.0);
      return std::move(over_.plan);
    }
    find_price();
    ForestPlan plan = plan_of(layout_, filled());
    plan.price = price_;
    plan.bound = std::min(bound_, plan.cost);  // equal but for rounding
    return plan;
  }

 private:
  struct Candidate {
    ForestHolds holds;
    ForestPlan plan;
  };

  Candidate priced(ForestHolds holds, double price) const {
    Candidate c{std::move(holds), {}};
    c.plan = plan_of(layout_, c.holds);
    c.plan.price = price;
    return c;
  }

  ForestHolds pinned_only() const {
    ForestHolds holds;
    for (const ForestLayout::Vertex& v : layout_.vertices) holds.push_back(v.pinned ? 1 : 0);
    return holds;
  }

  // At it no byte beyond the pinned ones can earn its keep.
  double prohibitive_price() const {
    double least = std::numeric_limits<double>::infinity();
    for (const ForestLayout::Vertex& v : layout_.vertices) {
      if (v.state_bytes > 0) least = std::min(least, v.state_bytes);
      if (v.edge_bytes > 0) least = std::min(least, v.edge_bytes);
    }
    const double most = std::numeric_limits<double>::max() / 4 / layout_.total_bytes;
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
    note(byte_worth_, over_.plan);
    double low = byte_worth_;
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

  ForestHolds filled() const {
    ForestEditor plan(layout_, spliced(fits_, over_));
    if (effort_ == Effort::bound) return plan.holds();
    plan.set_byte_worth(byte_worth_);
    plan.fill(budget_);
    if (effort_ == Effort::fill) return plan.holds();
    const bool proven = plan.cost() <= bound_ * (1 + kSame);
    if (!proven && layout_.size() * over_.plan.states.size() <= kExchangeWork) {
      plan.exchange(budget_);
    }
    return plan.holds();
  }

  // Of all plans that follow one of the two before some rank and the other from it on, the cheapest
  // that fits. When both are optimal at one price and the forest is a chain with free KV, this is
  // the optimum for any number of states between theirs: some cut falls where a segment of one plan
  // lies inside a segment of the other, and exchanging their ends there costs nothing (quadrangle
  // inequality).
  ForestHolds spliced(const Candidate& fits, const Candidate& over) const {
    ForestHolds best = fits.holds;
    double cost = fits.plan.cost;
    for (const auto& [first, second] : {std::pair{&fits, &over}, std::pair{&over, &fits}}) {
      const std::size_t cut = best_cut(*first, *second, cost);
      if (cut > layout_.vertices.size()) continue;
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
    const auto& vertices = layout_.vertices;
    const std::vector<double> served = served_by(layout_, second.holds);
    EdgeNeeds needs(layout_, second.holds);
    std::vector<double> near(vertices.size());  // depth of the first plan's state at or above
    double now = second.plan.cost;
    double bytes = second.plan.bytes;
    std::size_t best = vertices.size() + 1;
    for (std::size_t r = 0; r < vertices.size(); ++r) {
      const ForestLayout::Vertex& v = vertices[r];
      const double above = v.parent < 0 ? 0 : near[static_cast<std::size_t>(v.parent)];
      near[r] = first.holds[r] != 0 ? v.depth : above;
      if (first.holds[r] == second.holds[r]) continue;
      const double saved = served[r] * layout_.cost.between(above, v.depth);
      const int by = first.holds[r] != 0 ? 1 : -1;
      now -= by * saved;
      bytes += by * v.state_bytes + needs.change(r, by);
      if (bytes <= budget_ && now < cost) {
        cost = now;
        best = r + 1;
      }
    }
    return best;
  }

  ForestSolver& solver_;
  const ForestLayout& layout_;
  double budget_;
  Effort effort_;
  double byte_worth_;
  Candidate fits_, over_;
  double bound_ = 0;
  double price_ = 0;
};

Result<ForestPlan> ForestSolver::solve_within(double budget_bytes, Effort effort,
                                              double byte_worth) {
  return BudgetSearch(*this, budget_bytes, effort, byte_worth).run();
}

}  // namespace cairn::engine
