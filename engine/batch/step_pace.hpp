// SPDX-License-Identifier: Apache-2.0
// How many rows of prefill a step may have while somebody decodes beside them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace cairn::engine {

/// What the time of a step depends on.
struct StepShape {
  std::int32_t prefill_rows = 0;
  double prefill_context = 0;  // tokens before each prefill row, summed
  std::int32_t decode_rows = 0;
  double decode_context = 0;  // tokens before each decode row, summed
};

/// Seconds of a step as a sum: one part for reading the weights, one for each kind of row, one for
/// each kind's context; no part is negative. Fitted while serving: each part moves by its share of
/// the uncertainty in a step's relative error (a Kalman filter that keeps variances only) and grows
/// less certain with every step, so that old steps are forgotten while what no recent step tells
/// about stays known. One step that took far longer or less than expected moves the parts a little;
/// a second one in a row is believed. Owned by one thread.
class StepTimeModel {
 public:
  void observe(const StepShape& shape, double seconds);
  /// 0 before the first observation.
  double predict(const StepShape& shape) const;

 private:
  static constexpr std::size_t kParts = 5;
  using Row = std::array<double, kParts>;
  // What a step tells: all relative to its time.
  struct Innovation {
    double variance = 0;  // of the error
    double error = 0;     // 1 - expected
  };

  static Row row_of(const StepShape& shape);
  void begin(const Row& row, double seconds);
  void drift(double share);  // makes the parts less certain by a share of their size
  Innovation innovation(const Row& row) const;

  Row part_{};        // seconds
  Row scale_{};       // of each part, as guessed from the first step
  Row variance_{};    // of each part; what two of them have in common is left out
  int surprise_ = 0;  // -1 or 1: the last step's error was cut, and its sign
};

/// Keeps steps under a target. Owned by one thread.
class StepPace {
 public:
  /// `target_seconds` of a step with decode rows in it; 0: steps are never cut.
  explicit StepPace(double target_seconds) : target_(target_seconds) {}

  bool cuts() const { return target_ > 0; }
  /// The most rows of prefill, at most `most`, with which a step is expected to stay under the
  /// target, the usual error of the expectation on top. Prefill always advances: whatever the
  /// target, it may take a quarter of what the step's decode rows alone do, and has kLeastRows rows
  /// at least. `shape_of(rows)` is the step with so many; its time grows with them.
  std::int32_t rows(std::int32_t most,
                    const std::function<StepShape(std::int32_t)>& shape_of) const;
  /// A step that ran. Returns what was expected of it: 0 for the first.
  double observe(const StepShape& shape, double seconds);

  static constexpr std::int32_t kLeastRows = 8;

 private:
  double target_;
  StepTimeModel model_;
  double error_ = 0.5;  // mean relative error for steps of both kinds; at first a guess
  int errors_ = 1;      // that it is the mean of
};

}  // namespace cairn::engine
