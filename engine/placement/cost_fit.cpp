// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/cost_fit.hpp"

namespace cairn::engine {
namespace {

constexpr double kKeep = 0.98;      // of the past, per step
constexpr double kDistinct = 1e-4;  // of the largest determinant there could be

}  // namespace

void CostFit::add(double tokens, double context, double seconds) {
  if (tokens <= 0 || seconds <= 0) return;
  for (double* sum : {&tt_, &tc_, &cc_, &ts_, &cs_}) *sum *= kKeep;
  // By row, so that a short step counts as much as a long one.
  const double weight = 1 / (tokens * tokens);
  tt_ += weight * tokens * tokens;
  tc_ += weight * tokens * context;
  cc_ += weight * context * context;
  ts_ += weight * tokens * seconds;
  cs_ += weight * context * seconds;
}

CostModel CostFit::fit() const {
  if (tt_ == 0) return {.a = 0, .b = 0};
  const CostModel flat{.a = ts_ / tt_, .b = 0};
  const double determinant = tt_ * cc_ - tc_ * tc_;
  // Steps at one depth only say nothing of its growth.
  if (determinant <= kDistinct * tt_ * cc_) return flat;
  const CostModel both{.a = (ts_ * cc_ - cs_ * tc_) / determinant,
                       .b = (tt_ * cs_ - tc_ * ts_) / determinant};
  return both.a > 0 && both.b >= 0 ? both : flat;
}

}  // namespace cairn::engine
