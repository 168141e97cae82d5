// SPDX-License-Identifier: Apache-2.0
// The router's way in: from a prompt through the queue and a lookup to a place in the batch.
#include <algorithm>
#include <random>
#include <utility>

#include "actors/router.hpp"
#include "engine/request/validate.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

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

std::uint64_t random_seed() {
  static thread_local std::random_device device;
  // 53 bits: a client can echo it through JSON without loss.
  return ((static_cast<std::uint64_t>(device()) << 32U) | device()) >> 11U;
}

}  // namespace

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

}  // namespace cairn::actors
