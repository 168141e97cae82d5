// SPDX-License-Identifier: Apache-2.0
// Where a prompt that nobody has shared yet will split first: a mixture of the positions, fractions
// and distances from the end at which earlier prompts did, and of the uniform distribution
// (placement.md section 4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::engine {

class InteriorMixture {
 public:
  /// A prompt of `length` tokens, of which those up to `start` were shared when it came, split
  /// first at `position`, start < position < length.
  void first_split(std::int32_t start, std::int32_t position, std::int32_t length);

  /// Atoms of equal weight at quantiles of (start, length), ascending, not all distinct; fewer only
  /// when there is no room.
  void atoms(std::int32_t start, std::int32_t length, std::size_t count,
             std::vector<std::int32_t>& out) const;

  /// What was learned, as numbers, and back; false when these are not a mixture's.
  void write(std::vector<double>& out) const;
  bool read(std::span<const double>& in);

  std::size_t samples() const { return splits_.size(); }
  /// Enough of them to tell where prompts split; until then evenly.
  bool knows() const;
  /// position, fraction, distance from the end, uniform; they sum to 1.
  std::array<double, 4> weights() const;

 private:
  struct Split {
    std::int32_t position = 0, length = 0;
    bool operator==(const Split&) const = default;
  };
  static double placed(const Split& split, int component, std::int32_t length);
  double density(int component, std::int32_t start, std::int32_t position,
                 std::int32_t length) const;

  struct Weighted {
    double at = 0, weight = 0;
  };
  /// Of all components between `start` and `length`, ascending.
  std::vector<Weighted> expected(std::int32_t start, std::int32_t length) const;
  static bool before(int component, const Split& a, const Split& b);
  void enter(const Split& split);
  void leave(const Split& split);

  static constexpr int kUniform = 3;  // components before it are of earlier splits
  std::vector<Split> splits_;         // the last kRemembered, as a ring
  std::size_t next_ = 0;
  std::array<std::vector<Split>, kUniform> sorted_;  // the same, by where each component puts them
  std::array<double, 4> loss_{};
};

}  // namespace cairn::engine
