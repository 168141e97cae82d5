// SPDX-License-Identifier: Apache-2.0
#include "engine/request/openai_answer.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "engine/request/openai_logprobs.hpp"
#include "engine/request/openai_objects.hpp"

namespace cairn::engine::openai {

Answer::Answer(ResponseSettings settings, AnswerIdentity identity, std::size_t prompts)
    : settings_(std::move(settings)),
      identity_(std::move(identity)),
      prompts_(prompts),
      choices_(prompts * static_cast<std::size_t>(std::max(settings_.n, 1))) {}

void Answer::add(std::size_t prompt, Event event) {
  if (ended()) return;
  std::visit([&](auto& e) { on(prompt, e); }, event);
}

Answer::Choice* Answer::choice(std::size_t prompt, std::int32_t index) {
  if (index < 0 || index >= settings_.n || prompt >= prompts_) return nullptr;
  return &choices_[prompt * static_cast<std::size_t>(settings_.n) +
                   static_cast<std::size_t>(index)];
}

void Answer::on(std::size_t prompt, Started& event) {
  std::shared_ptr<const std::vector<TokenInfo>> logprobs;
  if (!event.prompt.empty()) {
    logprobs = std::make_shared<const std::vector<TokenInfo>>(std::move(event.prompt));
  }
  for (std::int32_t i = 0; i < settings_.n; ++i) {
    Choice* c = choice(prompt, i);
    if (!c) return;
    c->prompt_logprobs = logprobs;
    if (settings_.stream) begin(static_cast<std::size_t>(c - choices_.data()));
  }
}

void Answer::on(std::size_t prompt, Delta& event) {
  Choice* c = choice(prompt, event.choice);
  if (!c) return;
  c->logprobs.insert(c->logprobs.end(), std::make_move_iterator(event.logprobs.begin()),
                     std::make_move_iterator(event.logprobs.end()));
  if (settings_.token_ids)
    c->tokens.insert(c->tokens.end(), event.tokens.begin(), event.tokens.end());
  if (!settings_.stream) {
    c->text += event.text;
    return;
  }
  const bool logprobs = settings_.logprobs && (c->prompt_logprobs || !c->logprobs.empty());
  if (!event.text.empty() || logprobs || !c->tokens.empty())
    stream_delta(static_cast<std::size_t>(c - choices_.data()), event.text, false);
}

void Answer::on(std::size_t prompt, ChoiceFinished& event) {
  Choice* c = choice(prompt, event.choice);
  if (!c) return;
  c->reason = event.reason;
  if (!settings_.stream || event.reason == FinishReason::error) return;
  flush_finish_chunk();
  held_finish_ = static_cast<std::size_t>(c - choices_.data());
}

void Answer::on(std::size_t, Finished& event) {
  usage_ = finished_ == 0 ? event.usage : add_usage(usage_, event.usage);
  ++finished_;
  if (!settings_.stream || finished_ < prompts_) return;
  flush_finish_chunk();
  if (!settings_.include_usage) return;
  JsonWriter json;
  open_document(json, true);
  json.key("choices").begin_array().end_array();
  write_usage(json.key("usage"), usage_);
  write_timings(json.key("timings"), usage_);
  json.end_object();
  chunks_.push_back(json.take());
}

void Answer::on(std::size_t, Failed& event) {
  failure_ = event.error;
  if (settings_.stream) {
    flush_finish_chunk();
    chunks_.push_back(error_body(event.error));
  }
}

void Answer::open_document(JsonWriter& json, bool chunk) const {
  const std::string_view chat = chunk ? "chat.completion.chunk" : "chat.completion";
  json.begin_object().key("id").string(identity_.id);
  json.key("object").string(settings_.chat ? chat : "text_completion");
  json.key("created").integer(identity_.created).key("model").string(identity_.model);
}

void Answer::begin(std::size_t index) {
  Choice& c = choices_[index];
  if (std::exchange(c.began, true) || !settings_.chat) return;
  JsonWriter json;
  open_document(json, true);
  json.key("choices").begin_array().begin_object();
  json.key("index").integer(static_cast<std::int64_t>(index));
  json.key("delta").begin_object().key("role").string("assistant").key("content").string("");
  json.end_object().key("logprobs").null().key("finish_reason").null();
  json.end_object().end_array();
  if (settings_.include_usage) json.key("usage").null();
  json.end_object();
  chunks_.push_back(json.take());
}

void Answer::write_choice_logprobs(JsonWriter& json, const Choice& c, std::int64_t& offset) const {
  json.key("logprobs");
  if (!settings_.logprobs || (!c.prompt_logprobs && c.logprobs.empty())) {
    json.null();
  } else if (settings_.chat) {
    write_chat_logprobs(json, c.logprobs);
  } else {
    std::span<const TokenInfo> prompt;
    if (c.prompt_logprobs) prompt = *c.prompt_logprobs;
    write_completion_logprobs(json, prompt, c.logprobs, offset);
  }
}

void Answer::write_token_ids(JsonWriter& json, const Choice& c) const {
  if (!settings_.token_ids) return;
  json.key("token_ids").begin_array();
  for (const std::int32_t id : c.tokens) json.integer(id);
  json.end_array();
}

// One chunk: new text, or an empty one with the reason why the choice ended.
void Answer::stream_delta(std::size_t index, const std::string& text, bool finish) {
  begin(index);
  flush_finish_chunk();
  Choice& c = choices_[index];
  JsonWriter json;
  open_document(json, true);
  json.key("choices").begin_array().begin_object();
  json.key("index").integer(static_cast<std::int64_t>(index));
  if (!settings_.chat) {
    json.key("text").string(text);
  } else {
    json.key("delta").begin_object();
    if (!finish) json.key("content").string(text);
    json.end_object();
  }
  write_choice_logprobs(json, c, c.offset);
  write_token_ids(json, c);
  c.tokens.clear();
  c.prompt_logprobs.reset();
  c.logprobs.clear();
  json.key("finish_reason");
  finish ? json.string(to_string(c.reason)) : json.null();
  json.end_object().end_array();
  if (settings_.include_usage) json.key("usage").null();
  if (finish && ended() && !failure_ && !settings_.include_usage)
    write_timings(json.key("timings"), usage_);
  json.end_object();
  chunks_.push_back(json.take());
}

void Answer::flush_finish_chunk() {
  if (const auto index = std::exchange(held_finish_, std::nullopt)) stream_delta(*index, "", true);
}

void Answer::write_body_choice(JsonWriter& json, std::size_t index) const {
  const Choice& c = choices_[index];
  std::int64_t offset = 0;
  json.begin_object().key("index").integer(static_cast<std::int64_t>(index));
  if (settings_.chat) {
    json.key("message").begin_object().key("role").string("assistant");
    json.key("content").string(c.text).key("refusal").null().end_object();
  } else {
    json.key("text").string(c.text);
  }
  write_choice_logprobs(json, c, offset);
  write_token_ids(json, c);
  json.key("finish_reason").string(to_string(c.reason)).end_object();
}

std::string Answer::body() const {
  JsonWriter json;
  open_document(json, false);
  json.key("choices").begin_array();
  for (std::size_t i = 0; i < choices_.size(); ++i) write_body_choice(json, i);
  json.end_array();
  write_usage(json.key("usage"), usage_);
  write_timings(json.key("timings"), usage_);
  json.end_object();
  return json.take();
}

}  // namespace cairn::engine::openai
