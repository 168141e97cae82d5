// SPDX-License-Identifier: Apache-2.0
#include "actors/text_worker.hpp"

#include <exception>
#include <utility>

#include "base/failpoints.hpp"
#include "base/log.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

Outcome outcome_of(const std::optional<Error>& failure, const std::optional<FinishReason>& reason) {
  if (failure) {
    const bool aborted =
        failure->code == ErrorCode::cancelled || failure->code == ErrorCode::deadline;
    return aborted ? Outcome::abort : Outcome::error;
  }
  return reason == FinishReason::length ? Outcome::length : Outcome::stop;
}

}  // namespace

TextWorker::TextWorker(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)), mail_(mail) {}

void TextWorker::handle(const WorkerMessage& message) {
  std::visit([this](const auto& m) { on(m); }, message);
}

void TextWorker::on(const Prepare& m) {
  Prepared reply;
  reply.id = m.ticket->id;
  try {
    if (hit_failpoint("text.prepare")) throw std::runtime_error("failpoint text.prepare");
    const GenerateRequest& asked = m.ticket->request;
    auto encoded = engine::encode_prompt(*shared_->bundle, asked.prompt, asked.cache_positions);
    if (encoded.ok()) {
      reply.prompt = std::make_shared<engine::EncodedPrompt>(encoded.take());
    } else {
      reply.error = encoded.error();
    }
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("text work failed: ") + e.what());
    reply.error = Error{ErrorCode::internal, "the prompt could not be processed", ""};
  }
  mail_.router(std::move(reply));
}

void TextWorker::on(const OpenStream& m) {
  const GenerateRequest& asked = m.ticket->request;
  Stream stream;
  stream.ticket = m.ticket;
  stream.started = {m.prompt_tokens, m.cached_tokens, m.seed, {}};
  if (asked.echo && m.prompt) stream.echo = m.prompt->text;
  if (asked.prompt_logprobs) {
    stream.prompt_left = m.prompt_tokens - 1;
    model::TokenLogprobs first;
    first.chosen.token = m.first_token;
    stream.started.prompt.push_back(engine::token_info(shared_->bundle->tokenizer.get(), first));
  }
  for (const SequenceId seq : m.sequences) {
    stream.choices.push_back(
        {seq,
         {shared_->bundle->tokenizer, asked.stop, asked.skip_special_tokens, asked.logprobs >= 0},
         std::nullopt,
         std::nullopt});
    owners_[seq] = m.ticket->id;
  }
  Stream& kept = streams_.insert_or_assign(m.ticket->id, std::move(stream)).first->second;
  if (kept.prompt_left <= 0) emit_start(kept);
}

// Started waits for the prompt's log-probs, which it carries.
void TextWorker::emit_start(Stream& stream) {
  if (stream.started_sent) return;
  stream.started_sent = true;
  emit(*stream.ticket, std::move(stream.started));
  const std::size_t echoes = stream.echo.empty() ? 0 : stream.choices.size();
  for (std::size_t c = 0; c < echoes; ++c) {
    Delta delta;
    delta.choice = static_cast<std::int32_t>(c);
    delta.text = stream.echo;
    emit(*stream.ticket, std::move(delta));
  }
  for (Event& event : std::exchange(stream.held, {})) emit(*stream.ticket, std::move(event));
}

// One choice computes the log-probs, a few rows a step: the others may have answered by then.
void TextWorker::emit_after_start(Stream& stream, Event event) {
  if (!stream.started_sent) return stream.held.push_back(std::move(event));
  emit(*stream.ticket, std::move(event));
}

TextWorker::Place TextWorker::place_of(SequenceId seq) {
  const auto owner = owners_.find(seq);
  if (owner == owners_.end()) return {};
  Stream& stream = streams_.at(owner->second);
  for (Choice& choice : stream.choices) {
    if (choice.seq == seq) return {&stream, &choice};
  }
  return {};
}

void TextWorker::on(const StepTokens& m) {
  for (const auto& part : m.prompt_logprobs) guarded(part.id, [&] { take_prompt(part); });
  for (const auto& token : m.tokens) guarded(token.id, [&] { take_token(token, m.at); });
  for (const auto& ended : m.ended) guarded(ended.id, [&] { end_choice(ended); });
}

// What goes wrong in one request's text is that request's end, not the worker's.
template <class Work>
void TextWorker::guarded(SequenceId seq, Work&& work) {
  try {
    work();
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("text work failed: ") + e.what());
    const auto owner = owners_.find(seq);
    if (owner == owners_.end()) return;
    mail_.router(CancelRequest{
        owner->second, Error{ErrorCode::internal, "the answer's text could not be made", ""}});
  }
}

void TextWorker::take_prompt(const engine::PromptLogprobs& part) {
  Stream* const stream = place_of(part.id).stream;
  if (!stream || stream->started_sent) return;
  auto& prompt = stream->started.prompt;
  for (const auto& entry : part.entries) {
    prompt.push_back(engine::token_info(shared_->bundle->tokenizer.get(), entry));
    --stream->prompt_left;
  }
  if (stream->prompt_left <= 0) emit_start(*stream);
}

void TextWorker::take_token(const engine::SampledToken& token, Clock::time_point at) {
  const auto [stream, choice] = place_of(token.id);
  if (!choice || choice->reason) return;
  const Metrics& metrics = *shared_->metrics;
  if (!stream->first_token_seconds) {
    const double seconds = seconds_between(stream->ticket->submitted, at);
    stream->first_token_seconds = seconds;
    metrics
        .time_to_first_token_seconds(stream->started.cached_tokens > 0 ? CacheTemperature::warm
                                                                       : CacheTemperature::cold)
        .observe(seconds);
  }
  if (choice->last_token) {
    metrics.inter_token_latency_seconds().observe(seconds_between(*choice->last_token, at));
  }
  choice->last_token = at;
  metrics.generation_tokens_total().add();
  Delta delta;
  delta.choice = static_cast<std::int32_t>(choice - stream->choices.data());
  choice->stream.push(token.token, token.stop, token.logprobs, delta);
  if (choice->stream.stopped()) {
    mail_.router(ChoiceStopped{token.id});
    finish_choice(*stream, *choice, FinishReason::stop, std::move(delta));
  } else if (!delta.text.empty() || !delta.tokens.empty()) {
    emit_after_start(*stream, std::move(delta));
  }
}

void TextWorker::end_choice(const engine::EndedSequence& ended) {
  const auto [stream, choice] = place_of(ended.id);
  if (!choice || choice->reason) return;
  Delta delta;
  delta.choice = static_cast<std::int32_t>(choice - stream->choices.data());
  choice->stream.finish(delta);
  FinishReason reason = FinishReason::abort;
  if (ended.reason == engine::EndReason::stop) reason = FinishReason::stop;
  if (ended.reason == engine::EndReason::length) reason = FinishReason::length;
  if (ended.reason == engine::EndReason::failed) reason = FinishReason::error;
  // Held-back text may complete a stop string with the last bytes of the detokenizer.
  if (choice->stream.stopped() && reason == FinishReason::length) reason = FinishReason::stop;
  finish_choice(*stream, *choice, reason, std::move(delta));
}

void TextWorker::finish_choice(Stream& stream, Choice& choice, FinishReason reason, Delta delta) {
  choice.reason = reason;
  if (reason == FinishReason::abort || reason == FinishReason::error) return;  // Failed follows
  const std::int32_t index = delta.choice;
  if (!delta.text.empty() || !delta.tokens.empty()) emit_after_start(stream, std::move(delta));
  emit_after_start(stream, ChoiceFinished{index, reason});
}

void TextWorker::on(const CloseStream& m) {
  const auto it = streams_.find(m.ticket->id);
  Stream* stream = it == streams_.end() ? nullptr : &it->second;
  Usage usage = m.usage;
  if (stream) {
    usage.first_token_seconds = stream->first_token_seconds.value_or(0);
    for (const Choice& c : stream->choices) usage.completion_tokens += c.stream.generated();
  }
  count_end(stream, m, usage);
  if (m.failure) {
    emit(*m.ticket, Failed{*m.failure, usage});
  } else {
    if (stream) emit_start(*stream);
    emit(*m.ticket, Finished{usage});
  }
  if (stream) {
    for (const Choice& c : stream->choices) owners_.erase(c.seq);
    streams_.erase(it);
  }
  mail_.router(StreamClosed{m.ticket->id});
}

void TextWorker::count_end(const Stream* stream, const CloseStream& m, const Usage& usage) {
  const Metrics& metrics = *shared_->metrics;
  std::optional<FinishReason> reason;
  if (stream && !stream->choices.empty()) reason = stream->choices.front().reason;
  metrics.requests_total(endpoint_label(m.ticket->request.endpoint), outcome_of(m.failure, reason))
      .add();
  metrics.e2e_request_latency_seconds().observe(usage.total_seconds);
  if (usage.prompt_tokens == 0 || !stream) return;
  metrics.prompt_tokens_total().add(usage.prompt_tokens);
  metrics.request_prompt_tokens().observe(usage.prompt_tokens);
  metrics.request_cached_tokens().observe(usage.cached_tokens);
  metrics.request_generation_tokens().observe(usage.completion_tokens);
  metrics.request_prefill_time_seconds().observe(usage.prefill_seconds);
  metrics.request_decode_time_seconds().observe(usage.decode_seconds);
}

void TextWorker::on(const DropStreams&) {
  streams_.clear();
  owners_.clear();
}

}  // namespace cairn::actors
