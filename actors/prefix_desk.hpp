// SPDX-License-Identifier: Apache-2.0
// The prefix actor: the radix forest, who waits for whose prefill, and plans swapped in.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/disk_side.hpp"
#include "actors/mail.hpp"
#include "actors/shared.hpp"

namespace cairn::actors {

/// Owned by the prefix actor. Dies with its forest: leases that run elsewhere keep what they hold.
class PrefixDesk {
 public:
  PrefixDesk(std::shared_ptr<Shared> shared, Mail& mail);

  void handle(const PrefixMessage& message);

 private:
  struct Waiter {
    SequenceId seq = 0;
    std::int32_t position = 0;  // the leader saves here
  };

  void on(const Lookup& m);
  void on(const ForgetLookup& m);
  void on(const Publish& m);
  void on(const SequenceOver& m);
  void on(const SaveRefused& m);
  void on(const WantBlocks& m);
  void on(const PlanPublished& m);
  void on(const DropCache& m);
  void on(const WantSnapshot& m);
  void on(const WantReplica& m);
  void on(const KeepLearned& m);
  void on(const Fetched& m) { disk_.on(m); }
  void on(const FetchLate& m) { disk_.on(m); }
  void on(const DiskIdle& m) { disk_.on(m); }
  void on(const DiskReplaced& m) { disk_.on(m); }

  void wake(SequenceId leader, std::int32_t up_to, bool may_wait);
  void count_calibration(const engine::Lease& lease);
  void tell_planner();
  void renew_costs();
  bool is_dropped(SequenceId seq) const;
  void publish_gauges();

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  engine::PrefixCache cache_;
  bool has_planner_ = false;  // the rule wants plans
  DiskSide disk_;
  std::unordered_map<SequenceId, std::vector<Waiter>> waiters_;  // by leader
  std::shared_ptr<const engine::Plan> plan_;                     // in force; null before the first
  engine::PolicyCosts costs_;
  bool costs_known_ = false;  // and not merely assumed
  std::uint64_t lookups_ = 0;
  engine::PrefixStats counted_;  // what the counters have been told so far
};

}  // namespace cairn::actors
