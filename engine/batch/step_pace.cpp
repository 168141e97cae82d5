// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/step_pace.hpp"

#include <algorithm>
#include <cmath>

namespace cairn::engine {
namespace {

// All relative: noise and drift are shares of a step's time and of a part's scale.
constexpr double kNoise = 0.1;      // of one step
constexpr double kDrift = 0.02;     // of a part, per step
constexpr double kUncertainty = 2;  // of a part, at most
constexpr double kSurprise = 3;     // standard deviations that are believed at once
constexpr int kErrorSteps = 10;     // that the mean error looks back
constexpr double kErrorMargin = 2;  // mean errors kept clear of the target
constexpr double kLeastMargin = 0.05;
constexpr double kMostMargin = 1;
constexpr double kPromptShare = 0.25;  // of what decoding takes, for prompts, whatever the target
constexpr std::int32_t kRowGrain = 8;  // rows that the matrix kernels take together
constexpr std::int32_t kUneven = 4 * kRowGrain;  // rows below which cutting to the grain costs more

// Guesses of what the first step's time is made of, as shares of reading the weights.
constexpr double kRowShare = 1.0 / 16;
constexpr double kContextShare = 1.0 / 65536;

}  // namespace

StepTimeModel::Row StepTimeModel::row_of(const StepShape& s) {
  return {1.0, static_cast<double>(s.prefill_rows), s.prefill_context,
          static_cast<double>(s.decode_rows), s.decode_context};
}

void StepTimeModel::begin(const Row& row, double seconds) {
  scale_ = {1.0, kRowShare, kRowShare * kContextShare, kRowShare, kContextShare};
  double total = 0;
  for (std::size_t i = 0; i < kParts; ++i) total += scale_[i] * row[i];
  for (std::size_t i = 0; i < kParts; ++i) {
    scale_[i] *= seconds / total;
    part_[i] = scale_[i];
    variance_[i] = std::pow(kUncertainty * scale_[i], 2);
  }
}

void StepTimeModel::drift(double share) {
  for (std::size_t i = 0; i < kParts; ++i) {
    const double size = std::max(part_[i], scale_[i]);
    const double most = std::pow(kUncertainty * size, 2);
    variance_[i] = std::min(variance_[i] + std::pow(share * size, 2), most);
  }
}

StepTimeModel::Innovation StepTimeModel::innovation(const Row& row) const {
  Innovation in;
  in.variance = kNoise * kNoise;
  in.error = 1;
  for (std::size_t i = 0; i < kParts; ++i) {
    in.variance += row[i] * row[i] * variance_[i];
    in.error -= row[i] * part_[i];
  }
  return in;
}

void StepTimeModel::observe(const StepShape& shape, double seconds) {
  if (!(seconds > 0)) return;
  Row row = row_of(shape);
  if (scale_[0] == 0) begin(row, seconds);
  drift(kDrift);
  for (double& x : row) x /= seconds;
  Innovation in = innovation(row);
  const double believed = kSurprise * std::sqrt(in.variance);
  const int sign = in.error > believed ? 1 : in.error < -believed ? -1 : 0;
  if (sign != surprise_) {
    in.error = std::clamp(in.error, -believed, believed);
  } else if (sign != 0) {  // another machine than the one that was learned
    drift(std::abs(in.error));
    in = innovation(row);
  }
  surprise_ = sign;
  for (std::size_t i = 0; i < kParts; ++i) {
    const double gain = variance_[i] * row[i] / in.variance;
    part_[i] = std::max(part_[i] + gain * in.error, 0.0);
    variance_[i] *= 1 - gain * row[i];
  }
}

double StepTimeModel::predict(const StepShape& shape) const {
  const Row row = row_of(shape);
  double seconds = 0;
  for (std::size_t i = 0; i < kParts; ++i) seconds += part_[i] * row[i];
  return seconds;
}

std::int32_t StepPace::rows(std::int32_t most,
                            const std::function<StepShape(std::int32_t)>& shape_of) const {
  if (!cuts() || most <= kLeastRows) return most;
  const double margin = std::clamp(kErrorMargin * error_, kLeastMargin, kMostMargin);
  const double alone = model_.predict(shape_of(0));
  const double allowed = std::max(target_ / (1 + margin), (1 + kPromptShare) * alone);
  std::int32_t fits = std::min(kLeastRows, most);
  for (std::int32_t beyond = most + 1; fits + 1 < beyond;) {
    const std::int32_t middle = fits + (beyond - fits) / 2;
    (model_.predict(shape_of(middle)) <= allowed ? fits : beyond) = middle;
  }
  return fits == most || fits < kUneven ? fits : fits / kRowGrain * kRowGrain;
}

double StepPace::observe(const StepShape& shape, double seconds) {
  const double expected = model_.predict(shape);
  if (expected > 0 && seconds > 0 && shape.prefill_rows > 0 && shape.decode_rows > 0) {
    const double error = std::min(std::abs(seconds / expected - 1), 1.0);
    error_ += (error - error_) / (errors_ + 1);
    errors_ = std::min(errors_ + 1, kErrorSteps - 1);
  }
  model_.observe(shape, seconds);
  return expected;
}

}  // namespace cairn::engine
