// SPDX-License-Identifier: Apache-2.0
// Where to keep states: one interface for every rule, live and simulated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/placement/cache_policy.hpp"

namespace cairn::engine {

/// What a placement rule sees of one request.
struct PlacementQuery {
  std::int32_t length = 0;   // n: tokens of the prompt
  std::int32_t overlap = 0;  // t: tokens shared with the deepest remembered path
  std::int32_t resume = 0;   // c: the state that will be used, 0 for none
  bool inside_edge = false;  // the overlap ends inside a fresh segment: a first split
  bool spare_room = true;    // nothing has had to be evicted so far
  std::span<const StructuralPoint> structure;  // ascending positions
};

/// What Policy::place promises of its answer: ascending, inside (resume, length), and of those on
/// one position the surest.
void tidy(const PlacementQuery& query, std::vector<Placement>& places);

/// An entry that could be dropped: one cached state.
struct Candidate {
  std::int32_t position = 0;
  StateKind kind = StateKind::planned;
  std::uint64_t last_used = 0;  // tick of the last hit, or of its making
  std::uint64_t bytes = 0;      // the state and the KV only it needs
  std::int32_t gap = 0;         // tokens to the next state above it on its path, or to the root
};

/// A plan that the planner actor publishes and the policy swaps in. Immutable.
struct Plan;

/// Owned by one thread (the prefix actor, the simulator). Deterministic.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;

  /// Positions to copy out while this prompt is prefilled, strictly ascending, each in (resume,
  /// length).
  virtual std::vector<Placement> place(const PlacementQuery& query) = 0;
  /// Whether KV and states are kept at all.
  virtual bool keeps_anything() const { return true; }
  /// Whether the running state is handed over when an answer ends.
  virtual bool keeps_answer_end() const { return true; }
  /// Least valuable first: the order in which entries are dropped. Smaller is dropped earlier.
  virtual double value(const Candidate& candidate) const;  // default: last_used (LRU)
  /// A newer plan from the planner; ignored by rules without one.
  virtual void adopt(std::shared_ptr<const Plan> plan);
};

/// A policy's spelling, taken apart: "none", "last", "branch", "balanced:M" or "dp:M", the latter
/// two perhaps with "+branch".
struct PolicySpelling {
  enum class Interior : std::uint8_t { nothing, balanced, dp };
  bool keeps_anything = true;
  bool branch = false;
  Interior interior = Interior::nothing;
  int checkpoints = 0;  // M of the interior rule, 1 to kMaxCheckpoints
};
inline constexpr int kMaxCheckpoints = 256;
/// The error lists the spellings.
Result<PolicySpelling> parse_policy(std::string_view spelling);

/// Every policy but "none" keeps the prompt's end n - 1 and, of the structural points, those worth
/// a state: pinned ones (the last four), the first `turn` point after the start (end of the system
/// prompt) and the last two (start of the last user message, generation prompt). "branch" adds the
/// overlap's end t when c < t < n - 1; interior rules add `planned` positions. Where two agree on a
/// position the surer kind stays.
Result<std::unique_ptr<Policy>> make_policy(std::string_view spelling);

/// The same placement with the least recently used claim given up first.
Result<std::unique_ptr<CachePolicy>> make_lru_policy(std::string_view spelling);

}  // namespace cairn::engine
