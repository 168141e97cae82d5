// SPDX-License-Identifier: Apache-2.0
// A text worker: tokenizes and renders prompts, and turns its requests' tokens into events for
// their clients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/mail.hpp"
#include "actors/shared.hpp"
#include "engine/request/stream.hpp"

namespace cairn::actors {

/// Owned by one worker actor; a request stays with one worker, so its events are in order. An
/// exception in one request's text work fails that request only.
class TextWorker {
 public:
  TextWorker(std::shared_ptr<Shared> shared, Mail& mail);

  void handle(const WorkerMessage& message);

 private:
  struct Choice {
    SequenceId seq = 0;
    engine::ChoiceStream stream;
    std::optional<FinishReason> reason;
    std::optional<Clock::time_point> last_token;
  };
  struct Stream {
    TicketPtr ticket;
    std::vector<Choice> choices;
    Started started;
    bool started_sent = false;
    std::string echo;
    std::int32_t prompt_left = 0;  // prompt log-probs still to come
    std::vector<Event> held;       // what comes behind Started, until that is sent
    std::optional<double> first_token_seconds;
  };

  void on(const Prepare& m);
  void on(const OpenStream& m);
  void on(const StepTokens& m);
  void on(const CloseStream& m);
  void on(const DropStreams& m);

  struct Place {
    Stream* stream = nullptr;
    Choice* choice = nullptr;  // of that stream
  };
  Place place_of(SequenceId seq);  // nulls when nobody is waiting for it
  void take_token(const engine::SampledToken& token, Clock::time_point at);
  void take_prompt(const engine::PromptLogprobs& part);
  void end_choice(const engine::EndedSequence& ended);
  template <class Work>
  void guarded(SequenceId seq, Work&& work);
  void finish_choice(Stream& stream, Choice& choice, FinishReason reason, Delta delta);
  void emit_start(Stream& stream);
  void emit_after_start(Stream& stream, Event event);
  void emit(const Ticket& ticket, Event event) {
    shared_->tickets.deliver(ticket.id, std::move(event));
  }
  void count_end(const Stream* stream, const CloseStream& m, const Usage& usage);

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  std::unordered_map<RequestId, Stream> streams_;
  std::unordered_map<SequenceId, RequestId> owners_;
};

}  // namespace cairn::actors
