// SPDX-License-Identifier: Apache-2.0
#include "actors/router.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/request/validate.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

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
}

bool is_abort(const Error& error) {
  return error.code == ErrorCode::cancelled || error.code == ErrorCode::deadline;
}

std::uint64_t random_seed() {
  static thread_local std::random_device device;
  // 53 bits: a client can echo it through JSON without loss.
  return ((static_cast<std::uint64_t>(device()) << 32U) | device()) >> 11U;
}

}  // namespace

const char* to_string(Role role) {
  constexpr const char* names[] = {"router",      "prefix", "planner", "executor",
                                   "checkpoints", "worker", "disk"};
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

void Router::set_phase(Sequence& sequence, Phase phase) {
  const auto busy = [](Phase p) { return p == Phase::looking || p == Phase::running ? 1 : 0; };
  busy_ += busy(phase) - busy(sequence.phase);
  sequence.phase = phase;
}

void Router::on(const Submit& m) {
  Request request;
  request.ticket = m.ticket;
  requests_.emplace(m.ticket->id, std::move(request));
  mail_.worker(m.ticket->preparer, Prepare{m.ticket});
}

std::optional<Error> Router::check_prompt(Request& request) const {
  const GenerateRequest& asked = request.ticket->request;
  const auto room =
      engine::answer_room(request.prompt_tokens, asked.max_tokens, shared_->context_length,
                          engine::prompt_field(asked.prompt));
  if (!room.ok()) return room.error();
  request.max_new = *room;
  if (asked.prompt_logprobs) {
    const Status entries = engine::check_prompt_logprobs(request.prompt_tokens, asked.logprobs,
                                                         shared_->request_limits, asked.n);
    if (!entries.ok()) return entries.error();
  }
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
  if (m.error) return fail_request(*request, *m.error);
  request->prompt = m.prompt;
  request->prompt_tokens = static_cast<std::int32_t>(m.prompt->tokens.size());
  if (const auto error = check_prompt(*request)) return fail_request(*request, *error);
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
    sequence.id =
        make_sequence_id(request.ticket->first_sequence + static_cast<std::uint64_t>(choice),
                         request.ticket->worker);
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
    start_lookup(sequences_.at(id));
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
  lookup->scope = request.ticket->scope;
  set_phase(sequence, Phase::looking);
  sequence.ends_seen = ends_;
  mail_.prefix(Lookup{std::move(lookup), ++sequence.attempt});
}

void Router::requeue_front(Sequence& sequence) {
  set_phase(sequence, Phase::queued);
  queue_.push_front(sequence.id);
}

// The sequence that a lookup's answer is for; null when nobody waits for it any more.
Router::Sequence* Router::answered(SequenceId id, std::uint32_t attempt) {
  Sequence* sequence = find_sequence(id);
  const bool wanted = sequence && sequence->phase == Phase::looking && sequence->attempt == attempt;
  return wanted ? sequence : nullptr;
}

void Router::on(const Granted& m) {
  Sequence* sequence = answered(m.seq, m.attempt);
  if (!sequence) {
    // Stale: the lease goes with the message. Of a sequence that is looked up or runs again it must
    // not end that.
    const Sequence* again = find_sequence(m.seq);
    if (!again || again->phase == Phase::done) mail_.prefix(SequenceOver{m.seq});
    return;
  }
  refused_at_rest_.reset();
  if (!shared_->executor_up.load()) {  // it died meanwhile, nobody would take the sequence
    mail_.prefix(SequenceOver{m.seq});
    ++sequence->stale_releases;
    return requeue_front(*sequence);
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
    open_stream(request, sequence.tokens->front());
    request.ticket->place->release();
  }
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
  set_phase(sequence, Phase::running);
  mail_.executor(Admit{std::move(spec)});
}

void Router::open_stream(Request& request, std::int32_t first_token) {
  OpenStream open;
  open.ticket = request.ticket;
  open.sequences = request.sequences;
  open.prompt_tokens = request.prompt_tokens;
  open.cached_tokens = request.cached_tokens.value_or(0);
  open.seed = request.sampling.seed;
  open.first_token = first_token;
  open.prompt = request.prompt;
  mail_.worker(request.ticket->worker, std::move(open));
}

void Router::on(const Parked& m) {
  Sequence* sequence = answered(m.seq, m.attempt);
  if (!sequence) return;
  set_phase(*sequence, Phase::parked);
  if (m.what == Parked::For::prefill) shared_->metrics->shared_prefill_waits_total().add();
}

void Router::on(const Unparked& m) {
  Sequence* sequence = find_sequence(m.seq);
  if (!sequence || sequence->phase != Phase::parked) return;
  sequence->may_wait = m.may_wait;
  requeue_front(*sequence);
}

void Router::on(const Refused& m) {
  Sequence* sequence = answered(m.seq, m.attempt);
  if (!sequence) return;
  requeue_front(*sequence);
  if (m.why.ever && sequence->ends_seen != ends_) return;  // memory came back since: try again
  const auto now = Clock::now();
  if (m.why.ever && busy_ == 0 && !refused_at_rest_) refused_at_rest_ = now;
  const bool hopeless = busy_ == 0 && refused_at_rest_ && now - *refused_at_rest_ > kReleaseGrace;
  if (!m.why.ever || hopeless) {
    Request& request = requests_.at(sequence->request);
    return fail_request(request, Error{ErrorCode::no_memory, m.why.message,
                                       engine::prompt_field(request.ticket->request.prompt)});
  }
  no_room_ = true;  // until memory comes back; the tick sees to it when nothing runs
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
