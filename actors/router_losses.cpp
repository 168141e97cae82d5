// SPDX-License-Identifier: Apache-2.0
// The router when other actors die, and what only time can settle.
#include <optional>
#include <utility>
#include <vector>

#include "actors/router.hpp"

namespace cairn::actors {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);

}  // namespace

void Router::on(const ActorLost& m) {
  switch (m.role) {
    case Role::executor:
      return lose_executor(m.why);
    case Role::prefix:
      return lose_prefix();
    case Role::worker:
      return lose_worker(m.worker, m.why);
    case Role::router:
    case Role::planner:
    case Role::checkpoints:
    case Role::disk:
      return;  // sequences that wait for a confirmation are let go by the tick
  }
}

void Router::lose_executor(const std::string& why) {
  std::vector<RequestId> hit;
  for (auto& [id, sequence] : sequences_) {
    if (sequence.phase != Phase::running) continue;
    set_phase(sequence, Phase::releasing);
    sequence.releasing_since = Clock::now();
    mail_.prefix(SequenceOver{id});
    hit.push_back(sequence.request);
  }
  const Error error = shared_->device_loss
                          ? shared_->device_loss.error()
                          : Error{ErrorCode::unavailable, "the device worker failed: " + why, ""};
  for (const RequestId id : hit) fail_request(requests_.at(id), error);
  // Behind every Admit that went to the new executor before this router knew of it.
  mail_.executor(CancelAll{});
  memory_came_back();
}

void Router::fail_all(const Error& why) {
  std::vector<RequestId> open;
  for (const auto& [id, request] : requests_) {
    if (!request.closing) open.push_back(id);
  }
  for (const RequestId id : open) fail_request(requests_.at(id), why);
}

void Router::on(const ExecutorBack&) { memory_came_back(); }

// Running sequences finish on their leases; lookups are asked again.
void Router::lose_prefix() {
  std::vector<RequestId> released;
  for (auto& [id, sequence] : sequences_) {
    sequence.stale_releases = 0;  // the old prefix owes no answers
    if (sequence.phase == Phase::looking || sequence.phase == Phase::parked) {
      set_phase(sequence, Phase::queued);
      queue_.push_back(id);
    } else if (sequence.phase == Phase::releasing) {
      released.push_back(sequence.request);
      sequence_done(sequence);
    }
  }
  for (const RequestId id : released) maybe_close(requests_.at(id));
  memory_came_back();
}

// The worker's streams, or the prompts it was to prepare, died with it: their clients hear of it
// from here.
void Router::lose_worker(int index, const std::string& why) {
  std::vector<RequestId> lost;
  for (const auto& [id, request] : requests_) {
    const bool preparing = request.ticket->preparer == index && !request.prompt;
    if (request.ticket->worker == index || preparing) lost.push_back(id);
  }
  const Error error{ErrorCode::internal, "the text worker failed: " + why, ""};
  for (const RequestId id : lost) {
    Request& request = requests_.at(id);
    if (!request.closing) {
      fail_request(request, error);
      continue;
    }
    // The close may have died with the worker, and tokens before it: it is sent again, as a
    // failure. If the last event had been delivered, this one is dropped.
    if (!request.failure) request.failure = error;
    request.closing = false;
    maybe_close(request);
  }
}

void Router::arm_tick() {
  if (tick_armed_ || requests_.empty()) return;
  tick_armed_ = true;
  mail_.router_after(kTick, Tick{});
}

void Router::on(const Tick&) {
  tick_armed_ = false;
  const auto now = Clock::now();
  if (shared_->device_loss) fail_all(shared_->device_loss.error());  // nothing would run them
  expire_requests(now);
  release_stuck(now);
  if (busy_ == 0) memory_came_back();  // nothing else would start the queue again
}

void Router::expire_requests(Clock::time_point now) {
  std::vector<RequestId> late;
  for (const auto& [id, request] : requests_) {
    if (request.ticket->deadline <= now && !request.closing) late.push_back(id);
  }
  for (const RequestId id : late) {
    fail_request(requests_.at(id),
                 Error{ErrorCode::deadline,
                       "the request's time ran out before its answer was complete", "timeout"});
  }
}

// Their confirmation was lost with the actor that was to give it.
void Router::release_stuck(Clock::time_point now) {
  std::vector<SequenceId> stuck;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.phase == Phase::releasing && now - sequence.releasing_since > kReleaseGrace) {
      stuck.push_back(id);
    }
  }
  for (const SequenceId id : stuck) {
    mail_.prefix(SequenceOver{id});
    sequences_.at(id).stale_releases = 0;
    on(Released{id});
  }
}

}  // namespace cairn::actors
