// SPDX-License-Identifier: Apache-2.0
// What each state on disk is predicted to be worth: the time that losing it would cost a request,
// per byte that it would free.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "engine/cache/disk_map.hpp"
#include "engine/placement/dp.hpp"

namespace cairn::engine {

/// A prediction that is so many requests old. A rate holds for about the 64 requests that it was
/// predicted for; what is not hit after that is hit ever less often, as 1 / age (placement.md 4).
double aged_rate(double rate, std::uint64_t age);

/// What worth is counted in.
struct DiskTerms {
  CostModel prefill;           // seconds, or tokens where these are not known
  std::uint64_t requests = 0;  // the store's count now
  std::function<double(std::int32_t from, std::int32_t to)> restore;  // in the unit of `prefill`
  std::function<std::uint64_t(const DiskStateInfo&)> bytes;           // that losing it frees
};

/// The states of a map, and one more that may join them, while some are given up. A state serves
/// the requests that come as far as it but not as far as a deeper one. O(states) to make.
class DiskWorth {
 public:
  /// `extra` may be null; `extra_above`: the deepest state on its path. All outlive this.
  DiskWorth(const DiskMap& map, DiskTerms terms, const DiskStateInfo* extra,
            const DiskStateInfo* extra_above);

  double of(DiskId id) const;
  /// The state is given up: who is above it serves its requests, who is below starts further up.
  void remove(DiskId id);

 private:
  struct Node {
    const DiskStateInfo* state = nullptr;
    DiskId above = 0;  // 0: none
    double rate = 0;   // of requests that come this far, now
    double below = 0;  // of these, those that come as far as a state of `children`
    std::vector<DiskId> children;
  };
  void link(DiskId id, const DiskStateInfo* above);

  DiskTerms terms_;
  std::unordered_map<DiskId, Node> nodes_;
};

}  // namespace cairn::engine
