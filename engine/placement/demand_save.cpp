// SPDX-License-Identifier: Apache-2.0
// What was learned of a workload, kept across restarts: doubles in this machine's byte order, read
// by the same build only (the store that holds them has a fingerprint).
#include <cstring>
#include <utility>

#include "engine/placement/demand_forest.hpp"

namespace cairn::engine {
namespace {

constexpr double kVersion = 1;

}  // namespace

std::vector<std::byte> DemandForest::save() const {
  std::vector<double> numbers{kVersion};
  tables_.write(numbers);
  split_tables_.write(numbers);
  interior_.write(numbers);
  std::vector<std::byte> bytes(numbers.size() * sizeof(double));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

bool DemandForest::load(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(double) != 0 || bytes.empty()) return false;
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::span<const double> in(numbers);
  if (in.front() != kVersion) return false;
  in = in.subspan(1);
  HazardTables points = tables_, splits = split_tables_;
  InteriorMixture interior = interior_;
  if (!points.read(in) || !splits.read(in) || !interior.read(in) || !in.empty()) return false;
  tables_ = std::move(points);
  split_tables_ = std::move(splits);
  interior_ = std::move(interior);
  renew_rates();
  return true;
}

}  // namespace cairn::engine
