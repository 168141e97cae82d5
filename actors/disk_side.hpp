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
#include <vector>

#include "actors/mail.hpp"
#include "actors/shared.hpp"
#include "engine/prefix/prefix_cache.hpp"

namespace cairn::actors {

/// Owned by the prefix desk. Does nothing where there is no disk tier. Costs are seconds: a state
/// is read only where computing the same tokens would take longer, and a request waits no longer
/// than that; a state is written only where reading it back would pay.
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
    double worth = 0;  // seconds of prefill per byte to write

    std::span<const std::int32_t> path() const {
      return std::span(*tokens).first(static_cast<std::size_t>(position));
    }
  };

  bool start_reading(const engine::LookupRequest& request, const engine::DiskMatch& match);
  void park(const Lookup& lookup, Reading& reading);
  void wake(Reading& reading);
  bool weigh(Candidate& candidate) const;
  double compute_seconds(std::int64_t tokens) const;
  double read_seconds(std::uint64_t bytes) const;
  double queue_seconds() const;
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
  bool writing_ = false;  // a state is at the disk actor: it holds its slots until that is done
};

}  // namespace cairn::actors
