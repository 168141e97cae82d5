// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/concave_curve.hpp"

#include <algorithm>

namespace cairn::engine {

void CurvePool::reset(std::size_t expected_breaks) {
  breaks_.clear();
  breaks_.reserve(expected_breaks);
  operations_ = 0;
}

template <CurvePool::Side S>
std::int32_t CurvePool::meld(std::int32_t a, std::int32_t b) {
  if (a < 0) return b;
  if (b < 0) return a;
  ++operations_;
  Break* x = &breaks_[static_cast<std::size_t>(a)];
  Break* y = &breaks_[static_cast<std::size_t>(b)];
  if (S == kLow ? y->at < x->at : y->at > x->at) {
    std::swap(a, b);
    std::swap(x, y);
  }
  y->next[S] = x->child[S];
  x->child[S] = b;
  return a;
}

// The two passes of a pairing heap: neighbours left to right, then the pairs right to left.
template <CurvePool::Side S>
std::int32_t CurvePool::without_top(std::int32_t root) {
  std::int32_t rest = breaks_[static_cast<std::size_t>(root)].child[S];
  std::int32_t pairs = -1;
  while (rest >= 0) {
    const std::int32_t first = rest;
    const std::int32_t second = breaks_[static_cast<std::size_t>(first)].next[S];
    rest = second < 0 ? -1 : breaks_[static_cast<std::size_t>(second)].next[S];
    const std::int32_t pair = meld<S>(first, second);
    breaks_[static_cast<std::size_t>(pair)].next[S] = pairs;
    pairs = pair;
  }
  std::int32_t whole = -1;
  while (pairs >= 0) {
    const std::int32_t next = breaks_[static_cast<std::size_t>(pairs)].next[S];
    whole = meld<S>(whole, pairs);
    pairs = next;
  }
  return whole;
}

// Only for a curve with breaks.
template <CurvePool::Side S>
const CurvePool::Break& CurvePool::top(Curve& curve) {
  std::int32_t& root = S == kLow ? curve.lowest : curve.highest;
  while (breaks_[static_cast<std::size_t>(root)].gone) root = without_top<S>(root);
  return breaks_[static_cast<std::size_t>(root)];
}

template <CurvePool::Side S>
void CurvePool::pop(Curve& curve) {
  std::int32_t& root = S == kLow ? curve.lowest : curve.highest;
  if (--curve.breaks == 0) {
    clear(curve);
    return;
  }
  breaks_[static_cast<std::size_t>(root)].gone = true;
  root = without_top<S>(root);
}

void CurvePool::clear(Curve& curve) {
  curve.lowest = curve.highest = -1;
  curve.breaks = 0;
}

void CurvePool::insert(Curve& curve, double at, double falls) {
  const auto index = static_cast<std::int32_t>(breaks_.size());
  breaks_.push_back({.at = at, .falls = falls});
  curve.lowest = meld<kLow>(curve.lowest, index);
  curve.highest = meld<kHigh>(curve.highest, index);
  ++curve.breaks;
}

void CurvePool::add(Curve& into, const Curve& from) {
  into.left += from.left;
  into.right += from.right;
  into.falls_at_zero += from.falls_at_zero;
  into.falls += from.falls;
  into.lowest = meld<kLow>(into.lowest, from.lowest);
  into.highest = meld<kHigh>(into.highest, from.highest);
  into.breaks += from.breaks;
}

double CurvePool::shorten(Curve& curve, double end, double new_end) {
  double rise = 0;
  while (curve.breaks > 0) {
    const Break& last = top<kHigh>(curve);
    if (last.at < new_end) break;
    const double at = std::min(last.at, end);
    rise += curve.falls * (end - at);
    end = at;
    curve.falls = std::max(0.0, curve.falls - last.falls);
    pop<kHigh>(curve);
  }
  if (curve.breaks == 0) curve.falls = curve.falls_at_zero;  // sheds what subtracting left behind
  rise += curve.falls * (end - new_end);
  curve.right += rise;
  return rise;
}

void CurvePool::make_constant(Curve& curve, double value) {
  clear(curve);
  curve.left = curve.right = value;
  curve.falls_at_zero = curve.falls = 0;
}

double CurvePool::cap(Curve& curve, double end, double cap) {
  double above = curve.left - cap;
  if (!(above > 0) || !(curve.falls > 0)) return 0;
  double falls = curve.falls_at_zero;
  double at = 0;
  while (curve.breaks > 0) {
    const Break& first = top<kLow>(curve);
    const double next = above - falls * (first.at - at);
    if (!(next > 0)) break;
    above = next;
    at = first.at;
    falls += first.falls;
    pop<kLow>(curve);
  }
  const double meet = falls > 0 ? std::min(end, at + above / falls) : end;
  curve.left = cap;
  curve.falls_at_zero = 0;
  if (curve.breaks == 0) curve.falls = falls;
  if (falls > 0) insert(curve, meet, falls);
  return meet;
}

double CurvePool::undercut(Curve& curve, double end, double below, double line_falls,
                           double line_at_zero) {
  double steeper = std::max(0.0, line_falls - curve.falls);
  double at = end;
  curve.right -= below;
  curve.falls = line_falls;
  while (curve.breaks > 0) {
    const Break& last = top<kHigh>(curve);
    const double next = below - steeper * (at - last.at);
    if (next < 0) break;
    below = next;
    at = std::min(at, last.at);
    steeper += last.falls;
    pop<kHigh>(curve);
  }
  if (curve.breaks == 0) {
    steeper = std::max(0.0, line_falls - curve.falls_at_zero);
    if (below >= steeper * at) {
      make_constant(curve, curve.right);
      curve.left = line_at_zero;
      curve.falls_at_zero = curve.falls = line_falls;
      return 0;
    }
  }
  const double meet = at - below / steeper;
  insert(curve, meet, steeper);
  return meet;
}

}  // namespace cairn::engine
