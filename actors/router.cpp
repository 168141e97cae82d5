// SPDX-License-Identifier: Apache-2.0
#include "actors/router.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/request/validate.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
// How long an ended sequence may wait for prefix to confirm before it is let go all the same.
constexpr auto kReleaseGrace = std::chrono::seconds(2);

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

void count_lookup(const Metrics& metrics, std::int32_t prompt_tokens, const engine::Lease& lease) {
  metrics.prefix_cache_queries_total().add(prompt_tokens);
  metrics.prefix_cache_hits_total().add(lease.resume);
  metrics.prefix_cache_kv_matched_tokens_total().add(lease.kv_matched);
  const auto recomputed = [&](RecomputeReason reason, std::int32_t tokens) {
    metrics.prefix_cache_recomputed_tokens_total(reason).add(tokens);
  };
  recomputed(RecomputeReason::no_state, lease.reasons.no_state);
  recomputed(RecomputeReason::grain, lease.reasons.grain);
  recomputed(RecomputeReason::last_token, lease.reasons.last_token);
  recomputed(RecomputeReason::evicted, lease.reasons.evicted);
  metrics.realised_recompute_tokens_total().add(std::max(0, lease.overlap - lease.resume));
}

AbortedWhere aborted_where(std::string_view where) {
  if (where == "queue") return AbortedWhere::queue;
  return where == "prefill" ? AbortedWhere::prefill : AbortedWhere::decode;
}

std::uint64_t random_seed() {
  static thread_local std::random_device device;
  // 53 bits: a client can echo it through JSON without loss.
  return ((static_cast<std::uint64_t>(device()) << 32U) | device()) >> 11U;
}

}  // namespace

const char* to_string(Role role) {
  constexpr const char* names[] = {"router",   "prefix",      "planner",
                                   "executor", "checkpoints", "worker"};
  return names[static_cast<int>(role)];
}

model::SamplingParams resolve_sampling(const Sampling& asked, const Sampling& defaults) {
  const model::SamplingParams neutral;
  model::SamplingParams p;
  p.temperature = asked.temperature.value_or(defaults.temperature.value_or(neutral.temperature));
  p.top_k = asked.top_k.value_or(defaults.top_k.value_or(neutral.top_k));
  p.top_p = asked.top_p.value_or(defaults.top_p.value_or(neutral.top_p));
  p.min_p = asked.min_p.value_or(defaults.min_p.value_or(neutral.min_p));
  p.repetition_penalty =
      asked.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0F));
  p.presence_penalty = asked.presence_penalty.value_or(defaults.presence_penalty.value_or(0.0F));
  p.frequency_penalty = asked.frequency_penalty.value_or(defaults.frequency_penalty.value_or(0.0F));
  p.logit_bias = asked.logit_bias;
  p.seed = asked.seed ? *asked.seed : random_seed();
  return p;
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

// ------------------------------------------------------------------------------------- admission

void Router::on(const Submit& m) {
  Request request;
  request.ticket = m.ticket;
  requests_.emplace(m.ticket->id, std::move(request));
  mail_.worker(m.ticket->worker, Prepare{m.ticket});
}

std::optional<Error> Router::check_prompt(Request& request) const {
  const auto room = engine::answer_room(request.prompt_tokens, request.ticket->request.max_tokens,
                                        shared_->context_length);
  if (!room.ok()) return room.error();
  request.max_new = *room;
  const std::int64_t waiting = shared_->waiting_tokens.load();
  if (waiting + request.prompt_tokens > shared_->options.queue_token_limit) {
    return Error{ErrorCode::queue_full,
                 "the queue already holds " + std::to_string(waiting) +
                     " prompt tokens of at most " +
                     std::to_string(shared_->options.queue_token_limit),
                 ""};
  }
  return std::nullopt;
}

void Router::on(const Prepared& m) {
  Request* request = find(m.id);
  if (!request || request->closing) return;
  if (m.error) return fail_request(*request, *m.error, "queue");
  request->prompt = m.prompt;
  request->prompt_tokens = static_cast<std::int32_t>(m.prompt->tokens.size());
  if (const auto error = check_prompt(*request)) return fail_request(*request, *error, "queue");
  request->ticket->place->count_tokens(request->prompt_tokens);
  request->sampling =
      resolve_sampling(request->ticket->request.sampling, shared_->bundle->defaults);
  enqueue_choices(*request);
}

void Router::enqueue_choices(Request& request) {
  const auto tokens =
      std::make_shared<const std::vector<std::int32_t>>(std::move(request.prompt->tokens));
  for (std::int32_t choice = 0; choice < request.ticket->request.n; ++choice) {
    Sequence sequence;
    sequence.id = make_sequence_id(shared_->next_sequence++, request.ticket->worker);
    sequence.request = request.ticket->id;
    sequence.choice = choice;
    sequence.tokens = tokens;
    request.sequences.push_back(sequence.id);
    queue_.push_back(sequence.id);
    sequences_.emplace(sequence.id, std::move(sequence));
  }
  request.open = request.ticket->request.n;
}

void Router::pump() {
  while (!queue_.empty() && !no_room_ && busy_ < shared_->options.max_running &&
         shared_->executor_up.load()) {
    const SequenceId id = queue_.front();
    queue_.pop_front();
    Sequence* sequence = find_sequence(id);
    if (sequence && sequence->phase == Phase::queued) start_lookup(*sequence);
  }
}

void Router::start_lookup(Sequence& sequence) {
  const Request& request = requests_.at(sequence.request);
  auto lookup = std::make_shared<engine::LookupRequest>();
  lookup->id = sequence.id;
  lookup->tokens = sequence.tokens;
  lookup->structure = request.prompt->structure;
  lookup->max_new = request.max_new - sequence.generated;
  lookup->use_cache = request.ticket->request.use_cache && !request.ticket->request.prompt_logprobs;
  lookup->may_wait = sequence.may_wait;
  sequence.phase = Phase::looking;
  sequence.ends_seen = ends_;
  ++busy_;
  mail_.prefix(Lookup{std::move(lookup)});
}

void Router::on(const Granted& m) {
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence || sequence->phase != Phase::looking) {
    mail_.prefix(SequenceOver{m.seq});  // cancelled meanwhile: the lease goes with the message
    return;
  }
  admit(requests_.at(sequence->request), *sequence, std::move(*m.lease));
}

void Router::admit(Request& request, Sequence& sequence, engine::Lease lease) {
  if (!request.cached_tokens) {
    // Counted once a request, when it is first scheduled; the same number is told to the client.
    request.cached_tokens = lease.resume;
    request.first_admitted = Clock::now();
    if (request.ticket->request.use_cache && !request.ticket->request.prompt_logprobs) {
      count_lookup(*shared_->metrics, request.prompt_tokens, lease);
    }
    shared_->metrics->request_queue_time_seconds().observe(
        seconds_between(request.ticket->submitted, request.first_admitted));
    open_stream(request);
    request.ticket->place->release();
  }
  request.abort_where = "prefill";
  auto spec = std::make_shared<engine::SequenceSpec>();
  spec->id = sequence.id;
  spec->tokens = sequence.tokens;
  spec->generated = sequence.generated;
  spec->max_new = request.max_new;
  spec->context_length = shared_->context_length;
  spec->sampling = request.sampling;
  spec->choice = sequence.choice;
  const GenerateRequest& asked = request.ticket->request;
  spec->stop_ids = asked.stop_token_ids;
  if (!asked.ignore_eos) {
    spec->stop_ids.insert(spec->stop_ids.end(), shared_->bundle->stop_ids.begin(),
                          shared_->bundle->stop_ids.end());
  }
  spec->logprobs = asked.logprobs;
  spec->prompt_logprobs = asked.prompt_logprobs && sequence.choice == 0 && sequence.generated == 0;
  spec->lease = std::move(lease);
  sequence.phase = Phase::running;
  mail_.executor(Admit{std::move(spec)});
}

void Router::open_stream(Request& request) {
  OpenStream open;
  open.ticket = request.ticket;
  open.sequences = request.sequences;
  open.prompt_tokens = request.prompt_tokens;
  open.cached_tokens = request.cached_tokens.value_or(0);
  open.seed = request.sampling.seed;
  open.prompt = request.prompt;
  mail_.worker(request.ticket->worker, std::move(open));
}

// ------------------------------------------------------------------------------------- waiting

void Router::on(const Parked& m) {
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence || sequence->phase != Phase::looking) return;
  sequence->phase = Phase::parked;
  --busy_;
  shared_->metrics->shared_prefill_waits_total().add();
}

void Router::on(const Unparked& m) {
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence || sequence->phase != Phase::parked) return;
  sequence->phase = Phase::queued;
  sequence->may_wait = m.may_wait;
  queue_.push_front(m.seq);
}

void Router::on(const Refused& m) {
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence || sequence->phase != Phase::looking) return;
  --busy_;
  sequence->phase = Phase::queued;
  if (m.why.ever && sequence->ends_seen != ends_) {  // memory came back since it was looked up
    queue_.push_front(m.seq);
    return;
  }
  if (!m.why.ever || busy_ == 0) {
    // Not even an empty cache would do, or nothing runs that could give memory back.
    fail_request(requests_.at(sequence->request),
                 Error{ErrorCode::no_memory, m.why.message, "messages"}, "queue");
    return;
  }
  queue_.push_front(m.seq);
  no_room_ = true;
}

void Router::on(const AddSave& m) {
  const Sequence* leader = find_sequence(m.leader);
  if (leader && leader->phase == Phase::running) {
    mail_.executor(m);
  } else {
    mail_.prefix(SaveRefused{m.leader});
  }
}

// ------------------------------------------------------------------------------------- ending

void Router::on(const CancelRequest& m) {
  if (Request* request = find(m.id)) fail_request(*request, m.why, request->abort_where);
}

void Router::fail_request(Request& request, Error why, const char* where) {
  if (request.closing || request.failure) return;
  if (why.code == ErrorCode::cancelled || why.code == ErrorCode::deadline) {
    shared_->metrics->aborted_requests_total(aborted_where(where)).add();
  }
  request.failure = std::move(why);
  request.ticket->place->release();
  for (const SequenceId id : request.sequences) {
    Sequence& sequence = sequences_.at(id);
    switch (sequence.phase) {
      case Phase::looking:
        --busy_;
        [[fallthrough]];
      case Phase::parked:
        mail_.prefix(ForgetLookup{id});
        [[fallthrough]];
      case Phase::queued:
        sequence_done(sequence);
        break;
      case Phase::running:
        mail_.executor_urgent(CancelSequence{id});
        break;
      case Phase::releasing:
      case Phase::done:
        break;
    }
  }
  maybe_close(request);
}

void Router::on(const ChoiceStopped& m) {
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence || sequence->phase != Phase::running) return;
  sequence->stopped = true;
  mail_.executor_urgent(CancelSequence{m.seq});
}

void Router::on(const SequencesEnded& m) {
  for (const auto& preempted : m.preempted) requeue(preempted);
  for (const auto& ended : m.ended) end_running(ended);
  memory_came_back();
}

void Router::memory_came_back() {
  ++ends_;
  no_room_ = false;
}

void Router::requeue(const engine::PreemptedSequence& preempted) {
  shared_->metrics->preemptions_total().add();
  mail_.prefix(SequenceOver{preempted.id});
  Sequence* sequence = find_sequence(preempted.id);
  if (!sequence || sequence->phase != Phase::running) return;
  --busy_;
  Request& request = requests_.at(sequence->request);
  if (request.failure || sequence->stopped) {
    sequence_done(*sequence);
    maybe_close(request);
    return;
  }
  sequence->tokens = preempted.tokens;
  sequence->generated = preempted.generated;
  ++sequence->stale_releases;
  sequence->phase = Phase::queued;
  queue_.push_front(sequence->id);
}

void Router::end_running(const engine::EndedSequence& ended) {
  Sequence* sequence = find_sequence(ended.id);
  if (!sequence || sequence->phase != Phase::running) return;
  --busy_;
  sequence->prefill_seconds += ended.prefill_seconds;
  sequence->decode_seconds += ended.decode_seconds;
  sequence->phase = Phase::releasing;
  sequence->releasing_since = Clock::now();
  Request& request = requests_.at(sequence->request);
  if (ended.reason == engine::EndReason::failed && !request.failure) {
    fail_request(request, ended.error, ended.in_prefill ? "prefill" : "decode");
  }
  if (sequence->released) on(Released{sequence->id});
}

void Router::on(const Released& m) {
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
  sequence.phase = Phase::done;
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

// ------------------------------------------------------------------------------------- losses and
// time

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
      return;  // sequences that wait for a confirmation are let go by the tick
  }
}

void Router::lose_executor(const std::string& why) {
  std::vector<RequestId> hit;
  for (auto& [id, sequence] : sequences_) {
    if (sequence.phase != Phase::running) continue;
    --busy_;
    sequence.phase = Phase::releasing;
    sequence.releasing_since = Clock::now();
    mail_.prefix(SequenceOver{id});
    hit.push_back(sequence.request);
  }
  for (const RequestId id : hit) {
    fail_request(requests_.at(id),
                 Error{ErrorCode::unavailable, "the device worker failed: " + why, ""}, "decode");
  }
  memory_came_back();
}

// Running sequences finish on their leases; lookups are asked again.
void Router::lose_prefix() {
  std::vector<RequestId> released;
  for (auto& [id, sequence] : sequences_) {
    if (sequence.phase == Phase::looking || sequence.phase == Phase::parked) {
      if (sequence.phase == Phase::looking) --busy_;
      sequence.phase = Phase::queued;
      queue_.push_back(id);
    } else if (sequence.phase == Phase::releasing) {
      released.push_back(sequence.request);
      sequence_done(sequence);
    }
  }
  for (const RequestId id : released) maybe_close(requests_.at(id));
  memory_came_back();
}

// The worker's streams died with it: their clients hear of it from here.
void Router::lose_worker(int index, const std::string& why) {
  std::vector<TicketPtr> lost;
  for (auto& [id, request] : requests_) {
    if (request.ticket->worker == index) lost.push_back(request.ticket);
  }
  for (const TicketPtr& ticket : lost) {
    Request& request = requests_.at(ticket->id);
    fail_request(request, Error{ErrorCode::internal, "the text worker failed: " + why, ""},
                 request.abort_where);
    // A replaced worker answers CloseStream for a stream it does not know with the last event; a
    // close that was under way when the worker died is sent again.
    if (request.closing) {
      request.closing = false;
      maybe_close(request);
    }
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
  std::vector<RequestId> late;
  for (auto& [id, request] : requests_) {
    if (request.ticket->deadline <= now && !request.closing) late.push_back(id);
  }
  for (const RequestId id : late) {
    Request& request = requests_.at(id);
    fail_request(request,
                 Error{ErrorCode::deadline,
                       "the request's time ran out before its answer was complete", "timeout"},
                 request.abort_where);
  }
  std::vector<SequenceId> stuck;
  for (auto& [id, sequence] : sequences_) {
    if (sequence.phase == Phase::releasing && now - sequence.releasing_since > kReleaseGrace) {
      stuck.push_back(id);
    }
  }
  for (const SequenceId id : stuck) {
    mail_.prefix(SequenceOver{id});
    on(Released{id});
  }
}

void Router::publish_gauges() {
  shared_->running = busy_;
  shared_->metrics->num_requests_running().set(busy_);
  shared_->metrics->num_requests_waiting().set(static_cast<double>(shared_->waiting.load()));
}

}  // namespace cairn::actors
