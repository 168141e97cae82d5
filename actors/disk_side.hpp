// SPDX-License-Identifier: Apache-2.0
// The prefix actor's side of the disk tier: which requests wait for a state to be read, and which
// states of the memory are to be written.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "actors/mail.hpp"
#include "actors/shared.hpp"
#include "engine/prefix/prefix_cache.hpp"

namespace cairn::actors {

/// Owned by the prefix desk. Does nothing where there is no disk tier. Costs are seconds: a state
/// is read only where computing the same tokens would take longer, and a request waits no longer
/// than that; a state is written only where the requests that are predicted to need it would save
/// more by reading it back than the write takes.
class DiskSide {
 public:
  DiskSide(std::shared_ptr<Shared> shared, Mail& mail, engine::PrefixCache& cache);

  /// True: a deeper state than the memory's is being read, the router has been told to park the
  /// request and will look it up again. Each lookup waits once, and again for a shallower state
  /// where the read failed.
  bool hold(const Lookup& lookup);
  /// The request is no longer wanted.
  void forget(SequenceId seq);
  void on(const Fetched& m);
  void on(const FetchLate& m);

  /// A request runs, from the state of the memory that `lease` holds: the demand for what lies on
  /// its path is another one now, and what was not worth a write may have become so.
  void seen(const engine::LookupRequest& request, const engine::Lease& lease);
  /// The rates of all places are new.
  void replanned();

  /// A state enters the memory: it is written as soon as the disk has time, if it is there still.
  void offer(const engine::SavedState& saved);
  /// Does so, if the disk has time now.
  void write_next();
  void on(const DiskIdle& m);
  void on(const DiskReplaced& m);
  /// Everything is to be dropped, on disk too. `reply` gets `dropped` and what the disk held.
  void clear(const DroppedCache& dropped, const Reply<DroppedCache>& reply);

 private:
  struct Reading {
    engine::DiskId state = 0;
    std::vector<SequenceId> waiters;
  };
  struct Candidate {
    engine::TokenSeq tokens;
    std::int32_t position = 0;
    engine::StateKind kind = engine::StateKind::planned;
    std::string scope;
    double rate = 0;         // as DiskState::rate
    bool predicted = false;  // or the policy does not
    double worth = 0;  // seconds saved per byte to write; if predicted, per request served, too

    std::span<const std::int32_t> path() const {
      return std::span(*tokens).first(static_cast<std::size_t>(position));
    }
  };

  bool start_reading(const engine::LookupRequest& request, const engine::DiskMatch& match);
  void park(const Lookup& lookup, Reading& reading);
  void wake(Reading& reading);
  void offer(Candidate candidate);
  bool weigh(Candidate& candidate) const;
  void send_forecast();
  double compute_seconds(std::int64_t tokens) const;
  double queue_seconds(const engine::DiskStat& stat) const;
  std::uint64_t bytes_of(std::int32_t from, std::int32_t to) const;

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  engine::PrefixCache& cache_;
  std::unordered_map<std::uint64_t, Reading> readings_;
  std::uint64_t next_reading_ = 1;
  std::uint64_t first_kept_ = 0;  // reads before it began before a drop
  // Of requests that have waited: how deep a state they may still wait for.
  std::unordered_map<SequenceId, std::int32_t> waited_;
  std::unordered_set<std::uint64_t> overdue_;  // reads nobody waits for; meanwhile none is begun
  std::deque<Candidate> candidates_;
  std::uint64_t requests_ = 0;                            // since the last forecast
  engine::DiskId last_place_ = 0;                         // that a forecast has looked at
  std::vector<std::pair<engine::DiskId, double>> rates_;  // for the next one
  bool writing_ = false;  // a state is at the disk actor: it holds its slots until that is done
};

}  // namespace cairn::actors
