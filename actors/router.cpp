// SPDX-License-Identifier: Apache-2.0
// The router's way out: cancels, ends, preemptions, what the client is told last.
#include "actors/router.hpp"

#include <algorithm>
#include <utility>

#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

bool is_abort(const Error& error) {
  return error.code == ErrorCode::cancelled || error.code == ErrorCode::deadline;
}

}  // namespace

const char* to_string(Role role) {
  constexpr const char* names[] = {"router",      "prefix", "planner", "executor",
                                   "checkpoints", "worker", "disk"};
  return names[static_cast<int>(role)];
}

Router::Router(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)), mail_(mail) {}

Router::~Router() = default;

void Router::handle(const RouterMessage& message) {
  std::visit([this](const auto& m) { on(m); }, message);
  pump();
  arm_tick();
  publish_gauges();
}

Router::Request* Router::find(RequestId id) {
  const auto it = requests_.find(id);
  return it == requests_.end() ? nullptr : &it->second;
}

Router::Sequence* Router::find_sequence(SequenceId id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

void Router::on(const AddSave& m) {
  const Sequence* leader = find_sequence(m.leader);
  if (leader && leader->phase == Phase::running) {
    mail_.executor(m);
  } else {
    mail_.prefix(SaveRefused{m.leader});
  }
}

void Router::on(const CancelRequest& m) {
  if (Request* request = find(m.id)) fail_request(*request, m.why);
}

void Router::fail_request(Request& request, Error why) {
  if (request.closing || request.failure) return;
  const bool runs =
      std::any_of(request.sequences.begin(), request.sequences.end(),
                  [&](SequenceId id) { return sequences_.at(id).phase == Phase::running; });
  request.count_abort = is_abort(why) && runs;
  if (is_abort(why) && !runs) {
    shared_->metrics->aborted_requests_total(AbortedWhere::queue).add();
  }
  request.failure = std::move(why);
  request.ticket->place->release();
  for (const SequenceId id : request.sequences) let_go(sequences_.at(id));
  maybe_close(request);
}

// Ends a sequence from whatever it is doing; one that runs ends when the executor says so.
void Router::let_go(Sequence& sequence) {
  switch (sequence.phase) {
    case Phase::looking:
    case Phase::parked:
      mail_.prefix(ForgetLookup{sequence.id});
      sequence_done(sequence);
      break;
    case Phase::queued:
      std::erase(queue_, sequence.id);
      sequence_done(sequence);
      break;
    case Phase::running:
      cancel_running(sequence.id);
      break;
    case Phase::releasing:
    case Phase::done:
      break;
  }
}

// An urgent message can overtake the sequence's own Admit and would then be lost, so one goes
// behind it too.
void Router::cancel_running(SequenceId id) {
  mail_.executor_urgent(CancelSequence{id});
  mail_.executor(CancelSequence{id});
}

void Router::on(const ChoiceStopped& m) {
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence) return;
  sequence->stopped = true;
  let_go(*sequence);
  maybe_close(requests_.at(sequence->request));
}

void Router::on(const SequencesEnded& m) {
  for (const auto& preempted : m.preempted) requeue_preempted(preempted);
  for (const auto& ended : m.ended) end_running(ended);
  memory_came_back();
}

void Router::memory_came_back() {
  ++ends_;
  no_room_ = false;
}

void Router::requeue_preempted(const engine::PreemptedSequence& preempted) {
  shared_->metrics->preemptions_total().add();
  mail_.prefix(SequenceOver{preempted.id});
  Sequence* sequence = find_sequence(preempted.id);
  if (!sequence || sequence->phase != Phase::running) return;
  Request& request = requests_.at(sequence->request);
  if (request.failure || sequence->stopped) {
    sequence_done(*sequence);
    return maybe_close(request);
  }
  sequence->tokens = preempted.tokens;
  sequence->generated = preempted.generated;
  ++sequence->stale_releases;
  requeue_front(*sequence);
}

void Router::end_running(const engine::EndedSequence& ended) {
  Sequence* sequence = find_sequence(ended.id);
  if (!sequence || sequence->phase != Phase::running) return;
  sequence->prefill_seconds += ended.prefill_seconds;
  sequence->decode_seconds += ended.decode_seconds;
  set_phase(*sequence, Phase::releasing);
  sequence->releasing_since = Clock::now();
  Request& request = requests_.at(sequence->request);
  if (request.count_abort) {
    request.count_abort = false;
    shared_->metrics
        ->aborted_requests_total(ended.in_prefill ? AbortedWhere::prefill : AbortedWhere::decode)
        .add();
  }
  if (ended.reason == engine::EndReason::failed) fail_request(request, ended.error);
  if (ended.reason == engine::EndReason::cancelled && !request.failure && !sequence->stopped) {
    fail_request(request,
                 Error{ErrorCode::internal, "the request lost its place in the batch", ""});
  }
  if (sequence->released) on(Released{sequence->id});
}

void Router::on(const Released& m) {
  memory_came_back();  // what it saved is in the cache, where it can be evicted
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence) return;
  if (sequence->stale_releases > 0) {  // of a run that was preempted
    --sequence->stale_releases;
    return;
  }
  sequence->released = sequence->phase == Phase::running || sequence->phase == Phase::releasing;
  if (sequence->phase != Phase::releasing) return;  // its end is on the way from the executor
  Request& request = requests_.at(sequence->request);
  sequence_done(*sequence);
  maybe_close(request);
}

void Router::sequence_done(Sequence& sequence) {
  if (sequence.phase == Phase::done) return;
  set_phase(sequence, Phase::done);
  sequence.tokens = nullptr;
  --requests_.at(sequence.request).open;
}

void Router::maybe_close(Request& request) {
  if (request.open > 0 || request.closing) return;
  request.closing = true;
  CloseStream close;
  close.ticket = request.ticket;
  close.failure = request.failure;
  Usage& usage = close.usage;
  usage.prompt_tokens = request.prompt_tokens;
  usage.cached_tokens = request.cached_tokens.value_or(0);
  usage.seed = request.sampling.seed;
  usage.total_seconds = seconds_between(request.ticket->submitted, Clock::now());
  if (request.cached_tokens) {
    usage.queue_seconds = seconds_between(request.ticket->submitted, request.first_admitted);
  }
  if (!request.sequences.empty()) {
    const Sequence& first = sequences_.at(request.sequences.front());
    usage.prefill_seconds = first.prefill_seconds;
    usage.decode_seconds = first.decode_seconds;
  }
  mail_.worker(request.ticket->worker, std::move(close));
}

void Router::on(const StreamClosed& m) {
  Request* request = find(m.id);
  if (!request) return;
  for (const SequenceId id : request->sequences) sequences_.erase(id);
  requests_.erase(m.id);
}

void Router::publish_gauges() {
  shared_->running = busy_;
  shared_->metrics->num_requests_running().set(busy_);
  shared_->metrics->num_requests_waiting().set(static_cast<double>(shared_->waiting.load()));
}

}  // namespace cairn::actors
