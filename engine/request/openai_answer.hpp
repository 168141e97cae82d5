// SPDX-License-Identifier: Apache-2.0
// From engine events to the bodies and stream chunks of the OpenAI API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "engine/engine.hpp"
#include "engine/request/openai_parse.hpp"

namespace cairn::engine::openai {

struct AnswerIdentity {
  std::string id;            // "chatcmpl-..."
  std::int64_t created = 0;  // Unix time
  std::string model;         // the served name
};

/// One HTTP answer, made from the events of one submission a prompt. Choice c of prompt p is choice
/// p * n + c. One owner.
class Answer {
 public:
  Answer(ResponseSettings settings, AnswerIdentity identity, std::size_t prompts);

  /// Takes an event of prompt `prompt`. Events after the end are ignored.
  void add(std::size_t prompt, Event event);

  /// All prompts finished, or one failed.
  bool ended() const { return failure_.has_value() || finished_ == prompts_; }
  const std::optional<Error>& failure() const { return failure_; }

  /// Streaming: JSON texts made by the events so far, without the "data: " around them; the last is
  /// an error object when the answer failed after it began.
  std::vector<std::string> take_chunks() { return std::exchange(chunks_, {}); }

  /// Not streaming: the whole answer once it has ended well.
  std::string body() const;

  const Usage& usage() const { return usage_; }

 private:
  struct Choice {
    std::string text;
    std::vector<std::int32_t> tokens;  // when asked for; streaming: not written yet
    // Of the prompt, before its own; one copy for all choices. Streaming: null once written.
    std::shared_ptr<const std::vector<TokenInfo>> prompt_logprobs;
    std::vector<TokenInfo> logprobs;
    FinishReason reason = FinishReason::stop;
    std::int64_t offset = 0;  // characters that logprobs were written for
    bool began = false;       // streaming: the role chunk is out
  };

  void on(std::size_t prompt, Started& event);
  void on(std::size_t prompt, Delta& event);
  void on(std::size_t prompt, ChoiceFinished& event);
  void on(std::size_t prompt, Finished& event);
  void on(std::size_t prompt, Failed& event);

  Choice* choice(std::size_t prompt, std::int32_t index);
  void begin(std::size_t index);
  void stream_delta(std::size_t index, const std::string& text, bool finish);
  void flush_finish_chunk();
  void open_document(JsonWriter& json, bool chunk) const;
  void write_choice_logprobs(JsonWriter& json, const Choice& choice, std::int64_t& offset) const;
  void write_token_ids(JsonWriter& json, const Choice& choice) const;
  void write_body_choice(JsonWriter& json, std::size_t index) const;

  ResponseSettings settings_;
  AnswerIdentity identity_;
  std::size_t prompts_ = 1;
  std::size_t finished_ = 0;
  std::vector<Choice> choices_;
  std::optional<std::size_t> held_finish_;  // the last finish chunk waits for the timings
  std::vector<std::string> chunks_;
  std::optional<Error> failure_;
  Usage usage_;
};

}  // namespace cairn::engine::openai
