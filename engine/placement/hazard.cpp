// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/hazard.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace cairn::engine {
namespace {

constexpr double kPoolEvents = 0.5;
constexpr double kMost = 1e15;     // events or ticks that a table can have seen
constexpr double kSurest = 0.98;   // of a hit within a tick
constexpr double kNothing = 1e-6;  // weight of what is too far ahead to matter

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
  return static_cast<std::size_t>(bucket) * kParts +
         static_cast<std::size_t>(offset * kParts / start);
}

// Within a bucket the hazard is constant. A state that is not hit can be given up at any time, so
// the rate is that of the best moment to stop: the largest ratio of discounted hits to discounted
// time over all ends of buckets (an index in the sense of Gittins).
RateByAge::RateByAge(const HazardByAge& hazard, double horizon) {
  struct Stretch {
    double hits = 0, time = 0, left = 0;
  };
  HazardByAge steady;
  for (std::size_t b = 0; b < kAgeBuckets; ++b) {
    // Tables count hits per tick: a probability of each tick, held against a steady rate.
    steady[b] = -std::log1p(-std::min(hazard[b], kSurest));
  }
  const auto stretch = [&](int bucket, double length) {
    const double lambda = steady[static_cast<std::size_t>(bucket)];
    const double decay = lambda + 1 / horizon;
    const double left = std::exp(-decay * length);
    return Stretch{lambda * (1 - left) / decay, (1 - left) / decay, left};
  };
  std::array<Stretch, kAgeBuckets> whole;
  for (int b = 0; b < kAgeBuckets; ++b) {
    whole[static_cast<std::size_t>(b)] = stretch(b, b == kAgeBuckets - 1 ? 1e9 : 1 << b);
  }
  for (int b = 0; b < kAgeBuckets; ++b) {
    for (int part = 0; part < kParts; ++part) {
      const double rest = (1 << b) * (1 - (part + 0.5) / kParts);
      Stretch sum = b == kAgeBuckets - 1 ? whole.back() : stretch(b, rest);
      double best = sum.hits / sum.time;
      for (std::size_t next = static_cast<std::size_t>(b) + 1;
           next < kAgeBuckets && sum.left > kNothing; ++next) {
        sum.hits += sum.left * whole[next].hits;
        sum.time += sum.left * whole[next].time;
        sum.left *= whole[next].left;
        best = std::max(best, sum.hits / sum.time);
      }
      const auto at = static_cast<std::size_t>(b) * kParts + static_cast<std::size_t>(part);
      rate_[at] = static_cast<float>(best);
      hits_[at] = static_cast<float>(sum.hits);
    }
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

// Touched tables only: their place, then events and exposure.
void HazardTables::write(std::vector<double>& out) const {
  out.push_back(static_cast<double>(tables_.size()));
  out.push_back(static_cast<double>(std::count(touched_.begin(), touched_.end(), true)));
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (!touched_[t]) continue;
    out.push_back(static_cast<double>(t));
    out.insert(out.end(), tables_[t].events.begin(), tables_[t].events.end());
    out.insert(out.end(), tables_[t].exposure.begin(), tables_[t].exposure.end());
  }
}

bool HazardTables::read(std::span<const double>& in) {
  constexpr std::size_t kRecord = 1 + 2 * static_cast<std::size_t>(kAgeBuckets);
  const auto count = [](double v, std::size_t most) {
    return v >= 0 && v <= static_cast<double>(most) && v == std::floor(v);
  };
  if (in.size() < 2 || in[0] != static_cast<double>(tables_.size())) return false;
  if (!count(in[1], tables_.size())) return false;
  const auto records = static_cast<std::size_t>(in[1]);
  in = in.subspan(2);
  if (in.size() < records * kRecord) return false;
  tables_.assign(tables_.size(), {});
  touched_.assign(touched_.size(), false);
  for (std::size_t r = 0; r < records; ++r) {
    if (!count(in[0], tables_.size() - 1)) return false;
    const auto t = static_cast<std::size_t>(in[0]);
    for (std::size_t a = 0; a < kAgeBuckets; ++a) {
      const double events = in[1 + a], exposure = in[1 + kAgeBuckets + a];
      if (!(events >= 0 && events < kMost && exposure >= 0 && exposure < kMost)) return false;
      tables_[t].events[a] = events;
      tables_[t].exposure[a] = exposure;
    }
    touched_[t] = true;
    in = in.subspan(kRecord);
  }
  return true;
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
  const RateByAge* unseen = nullptr;  // of all classes without a table
  for (std::size_t c = 0; c < classes_; ++c) {
    const auto first = touched_.begin() + static_cast<std::ptrdiff_t>(c * features_);
    const auto last = first + static_cast<std::ptrdiff_t>(features_);
    const bool seen = std::find(first, last, true) != last;
    const HazardByAge cls = shrunk(by_class[c], all);
    const RateByAge* shared =
        !seen && unseen != nullptr ? unseen : &out->own_.emplace_back(cls, horizon_);
    if (!seen) unseen = shared;
    for (std::size_t t = c * features_; t < (c + 1) * features_; ++t) {
      out->by_[t] =
          touched_[t] ? &out->own_.emplace_back(shrunk(tables_[t], cls), horizon_) : shared;
    }
  }
  return out;
}

}  // namespace cairn::engine
