// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/dp.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn::engine {
namespace {

// The demand as the programme reads it: distinct depths ascending, all of positive weight. Weights
// are scaled by their maximum and costs by F(deepest), so that every sum below stays near K
// whatever the units were.
struct Demand {
  std::vector<std::int64_t> candidate;  // [K] depth floored to the grain
  std::vector<double> value;            // [K] F(candidate)
  std::vector<double> mass;             // [K + 1] prefix sums of weight
  std::vector<double> moment;           // [K + 1] prefix sums of weight * F(depth)

  std::size_t size() const { return candidate.size(); }
};

bool by_depth(const DemandPoint& x, const DemandPoint& y) { return x.depth < y.depth; }

Demand prepare(std::span<const DemandPoint> points, CostModel cost, std::int64_t grain) {
  std::vector<DemandPoint> sorted;
  sorted.reserve(points.size());
  double heaviest = 0;
  for (const DemandPoint& p : points) {
    if (!(p.weight > 0)) continue;  // a depth nobody asks for never needs a state of its own
    heaviest = std::max(heaviest, p.weight);
    sorted.push_back(p);
  }
  if (!std::is_sorted(sorted.begin(), sorted.end(), by_depth)) {
    std::stable_sort(sorted.begin(), sorted.end(), by_depth);
  }
  Demand d;
  const double whole = sorted.empty() ? 0 : cost(static_cast<double>(sorted.back().depth));
  if (!(whole > 0)) return d;
  d.candidate.reserve(sorted.size());
  d.value.reserve(sorted.size());
  d.mass.reserve(sorted.size() + 1);
  d.moment.reserve(sorted.size() + 1);
  d.mass.push_back(0);
  d.moment.push_back(0);
  for (std::size_t i = 0; i < sorted.size();) {
    const std::int64_t depth = sorted[i].depth;
    double weight = 0;
    for (; i < sorted.size() && sorted[i].depth == depth; ++i)
      weight += sorted[i].weight / heaviest;
    const std::int64_t at = depth / grain * grain;
    d.candidate.push_back(at);
    d.value.push_back(cost(static_cast<double>(at)) / whole);
    d.mass.push_back(d.mass.back() + weight);
    d.moment.push_back(d.moment.back() + weight * (cost(static_cast<double>(depth)) / whole));
  }
  return d;
}

// Lower envelope of lines with falling slopes, asked at rising x: both ends only move forward.
class Hull {
 public:
  explicit Hull(std::size_t lines) : lines_(lines) {}
  void clear() { head_ = tail_ = 0; }

  void push(double slope, double intercept, std::int32_t start) {
    if (tail_ > head_ && lines_[tail_ - 1].slope <= slope) {  // parallel: the lower one stays
      if (lines_[tail_ - 1].intercept <= intercept) return;
      --tail_;
    }
    while (tail_ - head_ >= 2 && covered(lines_[tail_ - 2], lines_[tail_ - 1], slope, intercept)) {
      --tail_;
      ++operations_;
    }
    lines_[tail_++] = {slope, intercept, start};
    ++operations_;
  }

  double least(double x, std::int32_t* start) {
    double best = lines_[head_].at(x);
    while (head_ + 1 < tail_) {
      const double next = lines_[head_ + 1].at(x);
      ++operations_;
      if (next > best) break;
      best = next;
      ++head_;
    }
    *start = lines_[head_].start;
    return best;
  }

  std::int64_t operations() const { return operations_; }

 private:
  struct Line {
    double slope = 0;
    double intercept = 0;
    std::int32_t start = 0;
    double at(double x) const { return slope * x + intercept; }
  };

  // `middle` lies nowhere below both its neighbours.
  static bool covered(const Line& before, const Line& middle, double slope, double intercept) {
    return (intercept - before.intercept) * (before.slope - middle.slope) <=
           (middle.intercept - before.intercept) * (before.slope - slope);
  }

  std::vector<Line> lines_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::int64_t operations_ = 0;
};

// best[j]: least cost of the first j depths with m checkpoints. Depths s..j-1 (from 0) hang on the
// candidate of s:
//   best'[j] = moment[j] + min over s < j of (best[s] - moment[s] + value[s] mass[s]) - value[s]
//   mass[j]
class Table {
 public:
  Table(const Demand& demand, std::size_t layers)
      : demand_(demand), columns_(demand.size()), starts_(layers * columns_), hull_(columns_) {
    std::vector<double> best = demand.moment;
    std::vector<double> next(best.size());
    for (std::size_t m = 0; m < layers; ++m) {
      fill(best, next, starts_.data() + m * columns_);
      best.swap(next);
    }
  }

  std::vector<std::int64_t> positions(std::size_t checkpoints) const {
    std::vector<std::int64_t> found;
    std::size_t end = columns_;
    for (std::size_t m = checkpoints; m > 0 && end > 0; --m) {
      end = static_cast<std::size_t>(starts_[(m - 1) * columns_ + end - 1]);
      const std::int64_t at = demand_.candidate[end];
      if (at > 0 && (found.empty() || found.back() != at)) found.push_back(at);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  std::int64_t operations() const { return hull_.operations(); }

 private:
  void fill(const std::vector<double>& best, std::vector<double>& next, std::int32_t* starts) {
    hull_.clear();
    next[0] = 0;
    for (std::size_t j = 0; j < columns_; ++j) {
      const double value = demand_.value[j];
      hull_.push(-value, best[j] - demand_.moment[j] + value * demand_.mass[j],
                 static_cast<std::int32_t>(j));
      next[j + 1] = demand_.moment[j + 1] + hull_.least(demand_.mass[j + 1], &starts[j]);
    }
  }

  const Demand& demand_;
  std::size_t columns_;
  std::vector<std::int32_t> starts_;  // [layers, columns] first depth of the last segment
  Hull hull_;
};

}  // namespace

std::vector<DpResult> place_checkpoints_each(std::span<const DemandPoint> demand,
                                             std::span<const int> budgets, CostModel cost,
                                             std::int64_t grain) {
  const Demand prepared = prepare(demand, cost, grain);
  std::vector<std::int64_t> all = prepared.candidate;
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (!all.empty() && all.front() == 0) all.erase(all.begin());
  std::size_t layers = 0;  // budgets that hold every candidate need no table
  for (const int m : budgets) {
    if (m > 0 && static_cast<std::size_t>(m) < all.size()) {
      layers = std::max(layers, static_cast<std::size_t>(m));
    }
  }
  const Table table(prepared, layers);
  std::vector<DpResult> results;
  results.reserve(budgets.size());
  for (const int m : budgets) {
    DpResult& r = results.emplace_back();
    const auto count = static_cast<std::size_t>(std::max(m, 0));
    r.positions = count >= all.size() ? all : table.positions(count);
    r.cost = placement_cost(demand, r.positions, cost);  // from the positions: no rounding of sums
    r.operations = table.operations();
  }
  return results;
}

DpResult place_checkpoints(std::span<const DemandPoint> demand, int checkpoints, CostModel cost,
                           std::int64_t grain) {
  const int budgets[] = {checkpoints};
  return std::move(place_checkpoints_each(demand, budgets, cost, grain).front());
}

double placement_cost(std::span<const DemandPoint> demand, std::span<const std::int64_t> positions,
                      CostModel cost) {
  double total = 0;
  std::size_t at = 0;  // positions at or below the last depth: demand is usually sorted
  for (const DemandPoint& p : demand) {
    if (at > 0 && positions[at - 1] > p.depth) {
      at = static_cast<std::size_t>(std::upper_bound(positions.begin(), positions.end(), p.depth) -
                                    positions.begin());
    }
    while (at < positions.size() && positions[at] <= p.depth) ++at;
    const double near = at == 0 ? 0 : static_cast<double>(positions[at - 1]);
    if (p.weight > 0) total += p.weight * cost.between(near, static_cast<double>(p.depth));
  }
  return total;
}

}  // namespace cairn::engine
