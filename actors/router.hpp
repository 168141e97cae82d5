// SPDX-License-Identifier: Apache-2.0
// A request's life: admission, queue, deadlines, cancellation, preemption, end. The only actor that
// clients reach.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/mail.hpp"
#include "actors/shared.hpp"

namespace cairn::actors {

/// How long a sequence may wait for a confirmation, or a refused one for memory, before the router
/// acts on its own.
inline constexpr auto kReleaseGrace = std::chrono::seconds(2);

/// Owned by the router actor. Every accepted ticket ends with exactly one StreamClosed from its
/// worker.
class Router {
 public:
  Router(std::shared_ptr<Shared> shared, Mail& mail);
  ~Router();

  void handle(const RouterMessage& message);

 private:
  // queued -> looking -> running -> releasing -> done, with parked beside looking. A cancelled one
  // goes to done at once, or through releasing when it was running.
  enum class Phase : std::uint8_t { queued, looking, parked, running, releasing, done };

  struct Sequence {
    SequenceId id = 0;
    RequestId request = 0;
    std::int32_t choice = 0;
    engine::TokenSeq tokens;  // prompt, and what was generated before a preemption
    std::int32_t generated = 0;
    Phase phase = Phase::queued;
    bool may_wait = true;
    bool stopped = false;  // a stop string completed: its cancel is a normal end
    double prefill_seconds = 0;
    double decode_seconds = 0;
    bool released = false;  // prefix has confirmed its end, perhaps before the executor told of it
    std::int32_t stale_releases = 0;
    Clock::time_point releasing_since;
    std::uint64_t ends_seen = 0;  // Router::ends_ when its lookup was sent
    std::uint32_t attempt = 0;    // lookups sent so far
  };

  struct Request {
    TicketPtr ticket;
    Box<engine::EncodedPrompt> prompt;  // null while it is being prepared
    model::SamplingParams sampling;
    std::vector<SequenceId> sequences;  // by choice
    std::int32_t open = 0;              // sequences not done
    std::int32_t prompt_tokens = 0;
    std::int32_t max_new = 0;                   // tokens of the answer at most
    std::optional<std::int32_t> cached_tokens;  // of the first grant
    std::optional<Error> failure;
    Clock::time_point first_admitted;
    bool closing = false;      // CloseStream was sent
    bool count_abort = false;  // as soon as the executor says where it caught it
  };

  void on(const Submit& m);
  void on(const Prepared& m);
  void on(const CancelRequest& m);
  void on(const Granted& m);
  void on(const Parked& m);
  void on(const Unparked& m);
  void on(const Refused& m);
  void on(const SequencesEnded& m);
  void on(const Released& m);
  void on(const ChoiceStopped& m);
  void on(const StreamClosed& m);
  void on(const ActorLost& m);
  void on(const AddSave& m);
  void on(const ExecutorBack& m);
  void on(const Tick& m);

  std::optional<Error> check_prompt(Request& request) const;
  void enqueue_choices(Request& request);
  void pump();  // starts lookups while there is room in the batch
  void start_lookup(Sequence& sequence);
  void admit(Request& request, Sequence& sequence, engine::Lease lease);
  void open_stream(Request& request, std::int32_t first_token);
  void set_phase(Sequence& sequence, Phase phase);
  Sequence* answered(SequenceId id, std::uint32_t attempt);
  void requeue_front(Sequence& sequence);
  void fail_request(Request& request, Error why);
  void let_go(Sequence& sequence);
  void cancel_running(SequenceId id);
  void end_running(const engine::EndedSequence& ended);
  void requeue_preempted(const engine::PreemptedSequence& preempted);
  void sequence_done(Sequence& sequence);
  void maybe_close(Request& request);
  void lose_executor(const std::string& why);
  void fail_all(const Error& why);
  void lose_prefix();
  void lose_worker(int index, const std::string& why);
  void expire_requests(Clock::time_point now);
  void release_stuck(Clock::time_point now);
  void arm_tick();
  void memory_came_back();
  void publish_gauges();

  Request* find(RequestId id);
  Sequence* find_sequence(SequenceId id);

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  std::unordered_map<RequestId, Request> requests_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::deque<SequenceId> queue_;  // phase queued, in order of service
  std::int32_t busy_ = 0;         // sequences looking or running: they hold a place in the batch
  bool no_room_ = false;          // the head was refused; wait until something ends
  // Since when lookups are refused although nothing is looked up or running: memory may still be on
  // its way back.
  std::optional<Clock::time_point> refused_at_rest_;
  std::uint64_t ends_ = 0;  // times that memory came back
  bool tick_armed_ = false;
};

/// The request's sampling with the model's defaults filled in and a seed drawn where it names none.
model::SamplingParams resolve_sampling(const Sampling& asked, const Sampling& defaults);

}  // namespace cairn::actors
