// SPDX-License-Identifier: Apache-2.0
// Every message that actors exchange. One closed variant per actor: a message that nobody handles
// does not compile. Large payloads travel as shared pointers; whoever receives a box may move out
// of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/batch/batch_loop.hpp"
#include "engine/cache/disk_store.hpp"
#include "engine/engine.hpp"
#include "engine/prefix/prefix_cache.hpp"
#include "engine/request/prompt.hpp"

namespace cairn::actors {

using engine::SequenceId;
using Clock = std::chrono::steady_clock;
/// Never negative.
inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

/// A sequence's id carries the index of its text worker, so that the executor can address tokens
/// without a table.
constexpr SequenceId make_sequence_id(std::uint64_t counter, int worker) {
  return (counter << 8U) | static_cast<std::uint64_t>(worker);
}
constexpr int worker_of(SequenceId id) { return static_cast<int>(id & 0xFFU); }
inline constexpr int kMaxWorkers = 256;

template <class T>
using Box = std::shared_ptr<T>;

/// Where an answer is waited for outside the actors; null: nobody waits. Who waits for a message
/// that nobody handled sees its promise broken.
template <class T>
using Reply = std::shared_ptr<std::promise<Result<T>>>;

/// One request's place among those that wait. Given back once: when the request is admitted or
/// ends, or when its ticket is forgotten. Thread-safe.
class WaitingPlace {
 public:
  WaitingPlace(std::atomic<std::int64_t>& requests, std::atomic<std::int64_t>& tokens,
               std::atomic<std::int64_t>& bytes, std::int64_t own_bytes)
      : requests_(requests), tokens_(tokens), bytes_(bytes), own_bytes_(own_bytes) {
    bytes_ += own_bytes_;
  }
  WaitingPlace(const WaitingPlace&) = delete;
  ~WaitingPlace() { release(); }

  /// The prompt's length, once it is known; by the owner of the request.
  void count_tokens(std::int64_t tokens) {
    if (released_.load()) return;
    counted_tokens_ = tokens;
    tokens_ += tokens;
  }
  void release() {
    if (released_.exchange(true)) return;
    --requests_;
    tokens_ -= counted_tokens_.load();
    bytes_ -= own_bytes_;
  }

 private:
  std::atomic<std::int64_t>& requests_;
  std::atomic<std::int64_t>& tokens_;
  std::atomic<std::int64_t>& bytes_;
  std::int64_t own_bytes_;
  std::atomic<std::int64_t> counted_tokens_{0};
  std::atomic<bool> released_{false};
};

/// A submitted request, immutable once it is sent.
struct Ticket {
  RequestId id = 0;
  std::uint64_t first_sequence = 0;  // its choices' sequences count from it, in order of submission
  GenerateRequest request;
  int worker = 0;     // the text worker that serves its stream
  int preparer = 0;   // the one that tokenizes its prompt
  std::string scope;  // of its lookups
  Clock::time_point submitted;
  Clock::time_point deadline;
  std::unique_ptr<WaitingPlace> place;
};
using TicketPtr = std::shared_ptr<const Ticket>;

enum class Role : std::uint8_t { router, prefix, planner, executor, checkpoints, worker, disk };
inline constexpr int kRoles = 7;
const char* to_string(Role role);

struct Submit {
  TicketPtr ticket;
};
/// From a worker: the prompt's ids, or why there are none.
struct Prepared {
  RequestId id = 0;
  Box<engine::EncodedPrompt> prompt;
  std::optional<Error> error;
};
struct CancelRequest {
  RequestId id = 0;
  Error why;
};
/// From prefix, in answer to Lookup. `attempt` is the lookup's own: an answer to an older one is
/// stale.
struct Granted {
  SequenceId seq = 0;
  std::uint32_t attempt = 0;
  Box<engine::Lease> lease;
};
struct Parked {
  enum class For : std::uint8_t {
    prefill,  // a running prompt computes its prefix
    disk,     // a state is being read
  };
  SequenceId seq = 0;
  std::uint32_t attempt = 0;
  For what = For::prefill;
};
struct Unparked {  // look it up again
  SequenceId seq = 0;
  bool may_wait = true;
};
struct Refused {
  SequenceId seq = 0;
  std::uint32_t attempt = 0;
  engine::NoRoom why;
};
/// From the executor, after each step in which something ended.
struct SequencesEnded {
  std::vector<engine::EndedSequence> ended;
  std::vector<engine::PreemptedSequence> preempted;
};
/// From prefix: everything that the sequence published has been entered.
struct Released {
  SequenceId seq = 0;
};
/// From a worker: a stop string completed, the rest of this choice is not wanted.
struct ChoiceStopped {
  SequenceId seq = 0;
};
/// From a worker: the last event has been delivered.
struct StreamClosed {
  RequestId id = 0;
};
/// From the supervisor: that actor died and (but for an executor that waits for its turn) was
/// replaced.
struct ActorLost {
  Role role = Role::planner;
  int worker = 0;
  std::string why;
};
/// From prefix, on its way to the executor: it passes through here so that it cannot overtake the
/// leader's Admit.
struct AddSave {
  SequenceId leader = 0;
  engine::PlannedSave save;
};
/// From the supervisor: there is an executor again.
struct ExecutorBack {};
struct Tick {};

using RouterMessage = std::variant<Submit, Prepared, CancelRequest, Granted, Parked, Unparked,
                                   Refused, SequencesEnded, Released, ChoiceStopped, StreamClosed,
                                   ActorLost, AddSave, ExecutorBack, Tick>;

struct Lookup {
  Box<const engine::LookupRequest> request;
  std::uint32_t attempt = 0;
};
struct ForgetLookup {  // a parked or queued lookup is no longer wanted
  SequenceId seq = 0;
};
struct Publish {
  Box<engine::SavedState> saved;
};
/// The sequence is over; Released follows.
struct SequenceOver {
  SequenceId seq = 0;
};
/// From the executor: the leader has passed the place where it was to save.
struct SaveRefused {
  SequenceId leader = 0;
};
struct WantBlocks {
  std::int32_t blocks = 0;
};
struct PlanPublished {
  std::shared_ptr<const engine::Plan> plan;
};
/// Memory and disk, and whatever the sequences that exist now would still save.
struct DropCache {
  Reply<DroppedCache> reply;
};
struct WantSnapshot {
  Reply<engine::PlanSnapshot> reply;
};
/// What the policy has learned is to be kept on disk.
struct KeepLearned {
  Reply<bool> reply;  // whether it was
};
/// From planner: it has no replica that the events could follow.
struct WantReplica {};

/// A state to read from disk, with the slots it goes to.
struct DiskFetch {
  std::uint64_t id = 0;
  engine::DiskMatch match;
  std::string scope;
  engine::TokenSeq tokens;  // at least match.position
  engine::StateRef state;
  std::vector<engine::KvBlockRef> blocks;  // [ceil(position / 16)]
  std::int32_t first_block = 0;            // those before it hold their KV already
};
/// From disk: what was asked for, or `good` false.
struct Fetched {
  Box<DiskFetch> fetch;
  bool good = false;
};
/// To itself: nobody is to wait for that read any longer.
struct FetchLate {
  std::uint64_t id = 0;
};
/// From disk: there is time to write.
struct DiskIdle {};
/// A new disk actor: what was asked of the old one will not be answered.
struct DiskReplaced {};

using PrefixMessage = std::variant<Lookup, ForgetLookup, Publish, SequenceOver, SaveRefused,
                                   WantBlocks, PlanPublished, DropCache, WantSnapshot, WantReplica,
                                   KeepLearned, Fetched, FetchLate, DiskIdle, DiskReplaced>;

/// What prefix saw. `replica` is set when it starts anew; otherwise the events follow the last
/// ones.
struct Observed {
  std::vector<engine::Observation> observations;
  Box<engine::PlanReplica> replica;
  Box<std::vector<engine::PlanEvent>> events;
  std::uint64_t budget = 0;
  engine::PolicyCosts costs;
  std::int64_t weight = 0;  // what it adds to Shared::plan_backlog
};
using PlannerMessage = std::variant<Observed>;

struct Admit {
  Box<engine::SequenceSpec> spec;
};
struct CancelSequence {
  SequenceId seq = 0;
};
/// In answer to WantBlocks; an empty box: nothing could be freed.
struct BlocksGranted {
  Box<engine::Reservation> blocks;
};
/// A new prefix actor: what was asked of the old one will not be answered.
struct PrefixReplaced {};
/// A new router: the sequences of the old one are nobody's.
struct CancelAll {};
struct Step {};
using ExecutorMessage =
    std::variant<Admit, CancelSequence, AddSave, BlocksGranted, PrefixReplaced, CancelAll, Step>;

struct Saved {
  Box<engine::SavedState> saved;
};
/// Goes behind a sequence's last save, so that prefix sees its end after its states.
struct EndOfSaves {
  SequenceId seq = 0;
};
using CheckpointMessage = std::variant<Saved, EndOfSaves>;

/// A state of the memory, to be written; DiskIdle follows.
struct StoreState {
  Box<engine::SavedState> saved;
  double rate = 0;  // as DiskState::rate
};
/// What has become of the demand for what is on disk.
struct Forecast {
  Box<const engine::DiskForecast> forecast;
};
struct FetchState {
  Box<DiskFetch> fetch;
};
/// `so_far` is what the memory has lost.
struct PurgeDisk {
  Reply<DroppedCache> reply;
  DroppedCache so_far;
};
/// What the policy has learned, in its own bytes.
struct StoreLearned {
  Box<const std::vector<std::byte>> learned;
  Reply<bool> reply;
};
struct DiskTick {};
using DiskMessage =
    std::variant<StoreState, Forecast, FetchState, PurgeDisk, StoreLearned, DiskTick>;

struct Prepare {
  TicketPtr ticket;
};
/// The request runs: its choices' sequences, and what it found cached.
struct OpenStream {
  TicketPtr ticket;
  std::vector<SequenceId> sequences;  // by choice
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;
  std::uint64_t seed = 0;
  std::int32_t first_token =
      0;  // of the prompt: nothing precedes it, so it has no log-prob of its own
  Box<engine::EncodedPrompt> prompt;
};
/// One step's tokens of this worker's sequences.
struct StepTokens {
  Clock::time_point at;
  std::vector<engine::SampledToken> tokens;
  std::vector<engine::PromptLogprobs> prompt_logprobs;
  std::vector<engine::EndedSequence> ended;
};
/// Nothing more comes: deliver the last event. `failure` unset: Finished.
struct CloseStream {
  TicketPtr ticket;
  Usage usage;  // completion_tokens and first_token_seconds are the worker's to fill in
  std::optional<Error> failure;
};
/// The router died and its requests with it.
struct DropStreams {};
using WorkerMessage = std::variant<Prepare, OpenStream, StepTokens, CloseStream, DropStreams>;

}  // namespace cairn::actors
