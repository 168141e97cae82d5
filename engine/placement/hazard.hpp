// SPDX-License-Identifier: Apache-2.0
// How likely a point of the forest is to be hit again, learned from the running workload: event and
// exposure tables by kind of point and by how long it has been idle (placement.md section 4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cairn::engine {

inline constexpr int kAgeBuckets = 20;  // floor(log2(age)) in ticks; the last one is open
int age_bucket(std::uint64_t age);      // age 0 counts as 1

/// Events and exposure (ticks) by age.
struct AgeTable {
  std::array<double, kAgeBuckets> events{};
  std::array<double, kAgeBuckets> exposure{};
};
using HazardByAge = std::array<double, kAgeBuckets>;  // per tick

/// (events + pseudo) / (exposure + pseudo / prior): the prior counts as `pseudo` events.
HazardByAge shrunk(const AgeTable& table, const HazardByAge& prior, double pseudo = 1);

/// Of a point of some age: expected discounted hits over expected discounted time held, until its
/// next hit or the best moment to give it up before; and the hits alone, never given up. Discount
/// exp(-x / horizon).
class RateByAge {
 public:
  RateByAge() = default;
  RateByAge(const HazardByAge& hazard, double horizon);
  double rate(std::uint64_t age) const;  // per tick
  double hits(std::uint64_t age) const;  // 0..1

 private:
  static constexpr int kParts = 4;  // of a bucket
  static std::size_t cell(std::uint64_t age);
  std::array<float, static_cast<std::size_t>(kAgeBuckets) * kParts> rate_{}, hits_{};
};

/// The rates of all classes and features at one moment. Immutable: shared between threads.
class HazardRates {
 public:
  const RateByAge& at(int cls, int feature) const {
    return *by_[static_cast<std::size_t>(cls) * features_ + static_cast<std::size_t>(feature)];
  }

 private:
  friend class HazardTables;
  std::size_t features_ = 0;
  std::vector<RateByAge> own_;        // of those that have been exposed, and of classes
  std::vector<const RateByAge*> by_;  // into own_
};

/// Tables for classes of two levels (a class, and a feature within it) under the pool of all of
/// them: one pseudo event at each level, so that a cold start is 1 / age, that is recency. Events
/// and exposure halve every `half_life` ticks. Owned by one thread.
class HazardTables {
 public:
  HazardTables(int classes, int features, double half_life, double horizon);

  void event(int cls, int feature, std::uint64_t age);
  void expose(int cls, int feature, std::uint64_t age, double ticks);
  void forget(double ticks);
  std::shared_ptr<const HazardRates> rates() const;

  /// What was learned, as numbers, and back; false, with anything in the
  /// tables, when these are not of such ones.
  void write(std::vector<double>& out) const;
  bool read(std::span<const double>& in);

 private:
  std::size_t index(int cls, int feature) const {
    return static_cast<std::size_t>(cls) * features_ + static_cast<std::size_t>(feature);
  }

  std::size_t classes_, features_;
  double half_life_, horizon_;
  std::vector<AgeTable> tables_;
  std::vector<bool> touched_;  // by table: it has had an event or exposure
};

}  // namespace cairn::engine
