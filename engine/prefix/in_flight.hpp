// SPDX-License-Identifier: Apache-2.0
// Requests that are running and will publish: whom a request with the same prompt may wait for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/prefix/prefix_cache.hpp"

namespace cairn::engine {

/// Owned by one thread.
class InFlight {
 public:
  struct Leader {
    SequenceId id = 0;
    std::int32_t overlap = 0;   // tokens shared
    std::int32_t position = 0;  // where to save: the overlap, or the follower's last token
  };

  /// A request starts at `resume` and will save at `saves`.
  void add(SequenceId id, std::string scope, TokenSeq tokens, std::int32_t resume,
           std::span<const PlannedSave> saves);
  void end(SequenceId id);
  /// It was seen to have passed `position`.
  void passed(SequenceId id, std::int32_t position);

  /// The request of this scope, `self` left out, that shares the most tokens with `tokens` (more
  /// than `least`) and has the end of what it shares still ahead of it. O(requests + tokens shared
  /// with those that share more than the one before).
  std::optional<Leader> best(SequenceId self, std::string_view scope,
                             std::span<const std::int32_t> tokens, std::int32_t least) const;

  bool will_save(SequenceId leader, std::int32_t position) const;
  void add_save(SequenceId leader, std::int32_t position);

  /// A request waits once for a leader: if it comes back and finds no more than before, it runs.
  bool first_wait(SequenceId follower, SequenceId leader);
  void stop_waiting(SequenceId follower) { waits_.erase(follower); }

  /// Nobody leads or waits any more.
  void clear() {
    running_.clear();
    waits_.clear();
  }

  std::size_t size() const { return running_.size(); }

 private:
  struct Running {
    std::string scope;
    TokenSeq tokens;
    std::int32_t reached = 0;
    std::vector<std::int32_t> saves;
  };

  std::map<SequenceId, Running> running_;
  std::unordered_map<SequenceId, SequenceId> waits_;  // follower -> leader
};

}  // namespace cairn::engine
