// SPDX-License-Identifier: Apache-2.0
// Requests and sweeps: what is learned from them, and the rates that follow.
#include "engine/placement/demand_forest.hpp"

#include <algorithm>
#include <utility>

namespace cairn::engine {
namespace {

constexpr int kHitBuckets = 7;  // 0, 1, 2, 3-4, 5-8, 9-16, 17+
constexpr int kTurns = 8;
constexpr int kFeatures = kAgeBuckets;  // turns of ends, gaps of the others

int hit_bucket(std::uint32_t hits) {
  if (hits <= 2) return static_cast<int>(hits);
  return std::min(age_bucket(hits - 1) + 2, kHitBuckets - 1);
}

PointKind meaning_of(StateKind kind) {
  switch (kind) {
    case StateKind::turn:
      return PointKind::turn;
    case StateKind::answer_end:
      return PointKind::answer;
    case StateKind::pinned:
      return PointKind::pinned;
    default:
      return PointKind::none;
  }
}

}  // namespace

DemandForest::DemandForest(const PlanTree& tree, DemandOptions options)
    : tree_(tree),
      options_(options),
      tables_(kPointKinds * kHitBuckets, kFeatures, options.half_life, options.horizon),
      split_tables_(kTurns, 1, options.half_life, options.horizon),
      points_(tree.slots()),
      sums_(tree.slots()),
      listed_(tree.slots()) {
  renew_rates();
}

DemandForest::DemandForest(const PlanTree& tree, const DemandForest& other)
    : tree_(tree),
      options_(other.options_),
      tables_(other.tables_),
      split_tables_(other.split_tables_),
      rates_(other.rates_),
      interior_(other.interior_),
      points_(other.points_),
      active_(other.active_),
      sums_(other.sums_),
      listed_(other.listed_),
      summed_(other.summed_),
      rated_(other.rated_),
      young_(other.young_),
      free_young_(other.free_young_),
      watched_(other.watched_),
      last_atoms_(other.last_atoms_),
      last_turn_(other.last_turn_),
      tick_(other.tick_),
      swept_(other.swept_) {}

int DemandForest::table_class(const Point& p) const {
  if (!options_.classes) return 0;
  return static_cast<int>(p.kind) * kHitBuckets + hit_bucket(p.hits);
}

int DemandForest::feature(const Point& p) const {
  if (!options_.classes) return 0;
  if (p.kind == PointKind::end) return options_.turns ? p.turn : 0;
  return options_.gaps ? p.gap : 0;
}

double DemandForest::rate_now(const Point& p) const {
  if (p.at < 0) return 0;
  return rates_->points->at(table_class(p), feature(p)).rate(tick_ - p.last);
}

bool DemandForest::goes_on_untold() const {
  return last_turn_ > 0 && options_.mixture && !interior_.knows();
}

double DemandForest::meaning_hits(StateKind kind) const {
  Point p;
  p.kind = meaning_of(kind);
  return rates_->points->at(table_class(p), feature(p)).hits(1);
}

int DemandForest::turn_of(PlanNode end) const {
  const bool told = options_.classes && options_.turns;
  return told && points_[end].kind == PointKind::end ? points_[end].turn : 0;
}

void DemandForest::activate(PlanNode node) {
  if (points_[node].at >= 0) return;
  points_[node].at = static_cast<std::int32_t>(active_.size());
  active_.push_back(node);
}

void DemandForest::deactivate(PlanNode node) {
  const std::int32_t at = std::exchange(points_[node].at, -1);
  if (at < 0) return;
  const PlanNode moved = active_.back();
  active_.pop_back();
  if (moved == node) return;
  active_[static_cast<std::size_t>(at)] = moved;
  points_[moved].at = at;
}

void DemandForest::drop(PlanNode node) {
  deactivate(node);
  points_[node] = Point{};
  sums_[node] = Sums{};
  listed_[node] = listed_[node] & (kSummed | kRated);
}

void DemandForest::hit(PlanNode node) {
  Point& p = points_[node];
  if (p.kind == PointKind::none) {
    p.kind = PointKind::branch;
    p.gap = static_cast<std::uint8_t>(age_bucket(tick_ - p.born));
    p.hits = 1;
  } else {
    const std::uint64_t age = tick_ - p.last;
    tables_.event(table_class(p), feature(p), age);
    if (p.kind != PointKind::end) p.gap = static_cast<std::uint8_t>(age_bucket(age));
    ++p.hits;
  }
  p.last = tick_;
  activate(node);
  set_rate(node, rate_now(p));
}

// A position that was worth a state for what it means is a point from then on.
void DemandForest::meaning(PlanNode node, StateKind kind) {
  Point& p = points_[node];
  const PointKind means = meaning_of(kind);
  if (p.kind != PointKind::none || means == PointKind::none) return;
  p.kind = means;
  p.last = tick_;
  activate(node);
  set_rate(node, rate_now(p));
}

void DemandForest::end_of_prompt(const RequestView& request) {
  Point& p = points_[request.end_node];
  if (p.kind != PointKind::none) return;
  int turn = 0;
  for (PlanNode n = tree_.parent(request.end_node); n != kNoPlanNode; n = tree_.parent(n)) {
    if ((listed_[n] & kEnd) == 0) continue;
    turn = std::min(points_[n].turn + 1, kTurns - 1);
    break;
  }
  p.kind = PointKind::end;
  listed_[request.end_node] |= kEnd;
  p.turn = static_cast<std::uint8_t>(turn);
  p.last = tick_;
  activate(request.end_node);
  set_rate(request.end_node, rate_now(p));
}

// One split makes others near it likelier, not less: the atoms stay.
void DemandForest::split(std::size_t slot, std::int32_t position) {
  Young& young = young_[slot];
  if (young.split) return;
  young.split = true;
  split_tables_.event(young.turn, 0, tick_ - young.born);
  if (options_.mixture) interior_.first_split(young.start, position, young.length);
}

void DemandForest::watch(const RequestView& request) {
  last_atoms_.clear();
  last_turn_ = turn_of(request.end_node);
  points_[request.end_node].born = tick_;
  if (!options_.interior || request.length - request.overlap < 2) return;
  if (free_young_.empty()) {
    free_young_.push_back(static_cast<std::int32_t>(young_.size()));
    young_.emplace_back();
  }
  const std::int32_t slot = free_young_.back();
  free_young_.pop_back();
  Young& y = young_[static_cast<std::size_t>(slot)];
  y.end = request.end_node;
  y.start = request.overlap;
  y.length = request.length;
  y.born = tick_;
  y.turn = last_turn_;
  interior_.atoms(y.start, y.length, options_.atoms, y.atoms);
  y.each = last_split_rate() / static_cast<double>(y.atoms.size());
  points_[request.end_node].prompt = slot;
  watched_.push_back(slot);
  spread(y, y.each, true);
  last_atoms_ = y.atoms;
}

void DemandForest::unwatch(Young& young) {
  for (PlanNode n = young.end; n != kNoPlanNode && tree_[n].depth > young.start;
       n = tree_[n].parent) {
    points_[n].prompt = -1;
  }
  young = Young{};
}

bool DemandForest::observe(const RequestView& request) {
  tick_ = request.tick;
  if (request.overlap > 0) {
    const PlanNode node = request.overlap_node;
    const std::int32_t slot = points_[node].prompt;
    const bool is_new = points_[node].kind == PointKind::none;
    if (slot >= 0 && is_new) split(static_cast<std::size_t>(slot), request.overlap);
    hit(node);
  }
  end_of_prompt(request);
  watch(request);
  if (tick_ < swept_ + static_cast<std::uint64_t>(options_.sweep_every)) return false;
  sweep();
  return true;
}

void DemandForest::expose(double ticks) {
  for (const PlanNode n : active_) {
    const Point& p = points_[n];
    tables_.expose(table_class(p), feature(p), tick_ - p.last, ticks);
  }
  for (const std::int32_t slot : watched_) {
    const Young& y = young_[static_cast<std::size_t>(slot)];
    if (y.end != kNoPlanNode) split_tables_.expose(y.turn, 0, tick_ - y.born, ticks);
  }
}

void DemandForest::renew_rates() {
  auto rates = std::make_shared<DemandRates>();
  rates->tick = tick_;
  rates->points = tables_.rates();
  rates->splits = split_tables_.rates();
  rates_ = std::move(rates);
}

void DemandForest::adopt(std::shared_ptr<const DemandRates> rates) {
  if (rates == nullptr || rates->tick + kStale < tick_ || rates->tick < rates_->tick) return;
  // Of requests that were not seen here: made for another forest, before this one began.
  if (rates->tick > tick_) return;
  rates_ = std::move(rates);
  ++adopted_;
}

void DemandForest::sweep() {
  const auto ticks = static_cast<double>(tick_ - swept_);
  swept_ = tick_;
  expose(ticks);
  tables_.forget(ticks);
  split_tables_.forget(ticks);
  const bool fresh = adopted_ > 0 && rates_->tick + kStale >= tick_;
  if (!fresh) renew_rates();

  const std::uint64_t idle = idle_limit(options_.idle, options_.per_claim, tree_.claims());
  for (std::size_t i = active_.size(); i-- > 0;) {
    if (tick_ - points_[active_[i]].last > idle) deactivate(active_[i]);
  }
  std::erase_if(watched_, [&](std::int32_t slot) {
    Young& y = young_[static_cast<std::size_t>(slot)];
    if (y.end != kNoPlanNode && tick_ - y.born < options_.young) return false;
    if (y.end != kNoPlanNode) unwatch(y);
    free_young_.push_back(slot);
    return true;
  });

  restart_sums();
  for (const PlanNode n : active_) {
    list_path(n);
    list(n, kRated);
    points_[n].rate = rate_now(points_[n]);
  }
  for (const std::int32_t slot : watched_) {
    Young& y = young_[static_cast<std::size_t>(slot)];
    if (y.atoms.empty()) continue;
    y.each =
        rates_->splits->at(y.turn, 0).rate(tick_ - y.born) / static_cast<double>(y.atoms.size());
    spread(y, y.each, false);
  }
  sum_up();
}

void DemandForest::changing(const TreeOp& op) {
  if (op.type == TreeOp::Type::clear) {
    points_.assign(1, Point{});
    sums_.assign(1, Sums{});
    listed_.assign(1, 0);
    summed_.clear();
    rated_.clear();
    active_.clear();
    young_.clear();
    free_young_.clear();
    watched_.clear();
    last_atoms_.clear();
    return;
  }
  Point& p = points_[op.node];
  if (op.type == TreeOp::Type::release) {
    add_below(tree_[op.node].parent, -served(op.node));
  } else if (op.type == TreeOp::Type::merge) {
    // What it asked for is served by whatever is above it.
    add_atoms(tree_[op.node].parent, p.rate + p.atoms);
    drop(op.node);
  } else if (op.type == TreeOp::Type::remove) {
    if (p.prompt >= 0 && young_[static_cast<std::size_t>(p.prompt)].end == op.node) {
      Young& young = young_[static_cast<std::size_t>(p.prompt)];
      spread(young, -young.each, true);
      unwatch(young);
    }
    add_mass(op.node, -p.rate - p.atoms);
    drop(op.node);
  }
}

void DemandForest::changed(const TreeOp& op) {
  if (points_.size() < tree_.slots()) {
    points_.resize(tree_.slots());
    sums_.resize(tree_.slots());
    listed_.resize(tree_.slots());
  }
  if (op.type == TreeOp::Type::leaf) {
    points_[op.node] = Point{};
    points_[op.node].born = tick_;
  } else if (op.type == TreeOp::Type::split) {
    split_edge(op);
  } else if (op.type == TreeOp::Type::claim && op.before == Claim::none) {
    // It takes what it serves off the one above.
    add_below(tree_[op.node].parent, served(op.node));
    meaning(op.node, op.kind);
  }
}

}  // namespace cairn::engine
