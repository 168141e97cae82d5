// SPDX-License-Identifier: Apache-2.0
// Concave, non-increasing, piecewise linear functions that are added up and cut at their two ends:
// the A_v of placement.md section 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::engine {

/// A function on [0, end], kept as its values at both ends and a set of breaks (position, slope
/// change) that lives in a CurvePool. The owner knows the end.
struct Curve {
  double left = 0;            // value at 0
  double right = 0;           // value at the end
  double falls_at_zero = 0;   // steepness right of 0
  double falls = 0;           // steepness at the end: falls_at_zero and all slope changes
  std::int32_t lowest = -1;   // pool index: heap of breaks by rising position
  std::int32_t highest = -1;  // the same breaks by falling position
  std::int32_t breaks = 0;
};

/// Holds the breaks of many curves. A break enters at an end of a curve and leaves from an end, so
/// two heaps that can be melded do for an ordered set: `add` is O(1), leaving O(log n), both
/// amortised. Not thread-safe.
class CurvePool {
 public:
  /// Forgets every break; curves made before are void.
  void reset(std::size_t expected_breaks);
  /// Heaps melded since the reset, what all work is made of.
  std::int64_t operations() const { return operations_; }

  /// into += from; both end at the same place.
  void add(Curve& into, const Curve& from);
  /// Moves the end from `end` down to `new_end` and returns by how much the value there is higher.
  double shorten(Curve& curve, double end, double new_end);
  void make_constant(Curve& curve, double value);
  /// min(curve, cap), for a cap above the value at the end. Returns where they meet, 0 when the
  /// whole curve is below.
  double cap(Curve& curve, double end, double cap);
  /// min(curve, line): the line lies `below` >= 0 under the curve at the end and is at least as
  /// steep as the curve is anywhere. Returns where they meet, 0 when the line is below everywhere;
  /// line_at_zero is its value there.
  double undercut(Curve& curve, double end, double below, double line_falls, double line_at_zero);

 private:
  enum Side : std::uint8_t { kLow = 0, kHigh = 1 };
  struct Break {
    double at = 0;
    double falls = 0;
    std::int32_t child[2] = {-1, -1};  // by side
    std::int32_t next[2] = {-1, -1};
    bool gone = false;  // left through the other heap
  };

  template <Side S>
  std::int32_t meld(std::int32_t a, std::int32_t b);
  template <Side S>
  std::int32_t without_top(std::int32_t root);
  template <Side S>
  const Break& top(Curve& curve);
  template <Side S>
  void pop(Curve& curve);
  void insert(Curve& curve, double at, double falls);
  static void clear(Curve& curve);

  std::vector<Break> breaks_;
  std::int64_t operations_ = 0;
};

}  // namespace cairn::engine
