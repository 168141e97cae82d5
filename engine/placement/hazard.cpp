// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/hazard.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

namespace cairn::engine {
namespace {

constexpr double kPoolEvents = 0.5;

double cold_hazard(int bucket) { return 0.3 / std::ldexp(1.0, bucket); }

void add(AgeTable& to, const AgeTable& from) {
  for (std::size_t a = 0; a < kAgeBuckets; ++a) {
    to.events[a] += from.events[a];
    to.exposure[a] += from.exposure[a];
  }
}

}  // namespace

int age_bucket(std::uint64_t age) {
  return std::min(static_cast<int>(std::bit_width(std::max<std::uint64_t>(age, 1))) - 1,
                  kAgeBuckets - 1);
}

HazardByAge shrunk(const AgeTable& table, const HazardByAge& prior, double pseudo) {
  HazardByAge out{};
  for (std::size_t a = 0; a < kAgeBuckets; ++a) {
    out[a] = (table.events[a] + pseudo) / (table.exposure[a] + pseudo / prior[a]);
  }
  return out;
}

std::size_t RateByAge::cell(std::uint64_t age) {
  const int bucket = age_bucket(age);
  const std::uint64_t start = std::uint64_t{1} << bucket;
  const std::uint64_t offset = std::min(std::max<std::uint64_t>(age, 1) - start, start - 1);
  return static_cast<std::size_t>(bucket * kParts) +
         static_cast<std::size_t>(offset * kParts / start);
}

// Backwards over the buckets; within one the hazard is constant.
RateByAge::RateByAge(const HazardByAge& hazard, double horizon) {
  double hits = 0, time = 0;  // from the start of the bucket above
  for (int b = kAgeBuckets - 1; b >= 0; --b) {
    const double lambda = hazard[static_cast<std::size_t>(b)];
    const double decay = lambda + 1 / horizon;
    const double length = b == kAgeBuckets - 1 ? 1e9 : std::ldexp(1.0, b);
    const auto ahead = [&](double rest) {
      const double left = std::exp(-decay * rest);
      const double here = (1 - left) / decay;
      return std::pair(lambda * here + left * hits, here + left * time);
    };
    for (int part = 0; part < kParts; ++part) {
      const auto at = static_cast<std::size_t>(b * kParts + part);
      const auto [h, t] = ahead(length * (1 - (part + 0.5) / kParts));
      hits_[at] = static_cast<float>(h);
      rate_[at] = static_cast<float>(h / t);
    }
    std::tie(hits, time) = ahead(length);
  }
}

double RateByAge::rate(std::uint64_t age) const { return rate_[cell(age)]; }
double RateByAge::hits(std::uint64_t age) const { return hits_[cell(age)]; }

HazardTables::HazardTables(int classes, int features, double half_life, double horizon)
    : classes_(static_cast<std::size_t>(classes)),
      features_(static_cast<std::size_t>(features)),
      half_life_(half_life),
      horizon_(horizon),
      tables_(classes_ * features_),
      touched_(tables_.size()) {}

void HazardTables::event(int cls, int feature, std::uint64_t age) {
  const std::size_t at = index(cls, feature);
  tables_[at].events[static_cast<std::size_t>(age_bucket(age))] += 1;
  touched_[at] = true;
}

void HazardTables::expose(int cls, int feature, std::uint64_t age, double ticks) {
  const std::size_t at = index(cls, feature);
  tables_[at].exposure[static_cast<std::size_t>(age_bucket(age))] += ticks;
  touched_[at] = true;
}

void HazardTables::forget(double ticks) {
  const double keep = std::exp2(-ticks / half_life_);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (!touched_[t]) continue;
    for (double& v : tables_[t].events) v *= keep;
    for (double& v : tables_[t].exposure) v *= keep;
  }
}

std::shared_ptr<const HazardRates> HazardTables::rates() const {
  AgeTable pool;
  std::vector<AgeTable> by_class(classes_);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (touched_[t]) add(by_class[t / features_], tables_[t]);
  }
  for (const AgeTable& t : by_class) add(pool, t);
  HazardByAge cold{};
  for (int b = 0; b < kAgeBuckets; ++b) cold[static_cast<std::size_t>(b)] = cold_hazard(b);
  const HazardByAge all = shrunk(pool, cold, kPoolEvents);

  auto out = std::make_shared<HazardRates>();
  out->features_ = features_;
  out->own_.reserve(classes_ + tables_.size());  // pointers into it stay valid
  out->by_.resize(tables_.size());
  for (std::size_t c = 0; c < classes_; ++c) {
    const HazardByAge cls = shrunk(by_class[c], all);
    const RateByAge* shared = &out->own_.emplace_back(cls, horizon_);
    for (std::size_t t = c * features_; t < (c + 1) * features_; ++t) {
      out->by_[t] =
          touched_[t] ? &out->own_.emplace_back(shrunk(tables_[t], cls), horizon_) : shared;
    }
  }
  return out;
}

}  // namespace cairn::engine
