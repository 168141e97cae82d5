// SPDX-License-Identifier: Apache-2.0
#include "cli/load/asker.hpp"

#include <limits>
#include <string_view>

#include "base/json.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"

namespace cairn::load {
namespace {

using json::Value;

void write_ids(JsonWriter& json, const Tokens& tokens) {
  json.begin_array();
  for (const std::int32_t token : tokens) json.integer(token);
  json.end_array();
}

std::string message_json(std::string_view role, std::string_view content) {
  JsonWriter json;
  json.begin_object().key("role").string(role).key("content").string(content).end_object();
  return json.take();
}

const Value* member(const Value* of, std::string_view name) {
  return of ? of->find(name) : nullptr;
}

std::string text_of(const Value* value) {
  return value && value->is(json::Kind::string) ? value->text() : "";
}

// The start of what an error object says, or of what came instead.
std::string complaint(std::string_view body) {
  constexpr std::size_t kMost = 300;  // bytes
  const auto parsed = json::parse(body);
  const std::string said =
      parsed.ok() ? text_of(member(parsed->find("error"), "message")) : std::string();
  return said.empty() ? std::string(body.substr(0, kMost)) : said.substr(0, kMost);
}

// Nothing where it is no number of tokens of one request, so that sums are of any number of them.
std::optional<std::int64_t> count_of(const Value* value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (!value || !value->is(json::Kind::number)) return std::nullopt;
  const std::int64_t count = value->as_int();
  return count >= 0 && count <= kMost ? std::optional(count) : std::nullopt;
}

void take_usage(Record& record, const Value& usage) {
  record.prompt_tokens = count_of(usage.find("prompt_tokens"));
  record.answer_tokens = count_of(usage.find("completion_tokens"));
  record.cached_tokens = count_of(member(usage.find("prompt_tokens_details"), "cached_tokens"));
}

/// Whether the part of a choice brought a token.
bool take_choice(Record& record, const Value& choice) {
  std::string text = text_of(choice.find("text"));
  if (text.empty()) text = text_of(member(choice.find("delta"), "content"));
  record.text += text;
  const Value* ids = choice.find("token_ids");
  const bool tells = ids && !ids->items().empty();
  if (tells) {
    for (const Value& id : ids->items()) {
      record.answer.push_back(static_cast<std::int32_t>(id.as_int()));
    }
  }
  return tells || !text.empty();
}

void fail(Record& record, std::string kind, std::string message) {
  record.error = std::move(kind);
  record.message = std::move(message);
}

}  // namespace

std::string words_of(const Tokens& tokens) {
  static constexpr std::string_view kConsonants = "bdfgklmnprstvwzj";
  static constexpr std::string_view kVowels = "aeiou";
  std::string out;
  for (const std::int32_t token : tokens) {
    if (!out.empty()) out += ' ';
    for (auto rest = static_cast<std::size_t>(token) + 1; rest > 0;) {
      out += kConsonants[rest % kConsonants.size()];
      rest /= kConsonants.size();
      out += kVowels[rest % kVowels.size()];
      rest /= kVowels.size();
    }
  }
  return out;
}

std::string conversation(const std::vector<Tokens>& messages) {
  std::string out = "[";
  for (const Tokens& message : messages) {
    if (out.size() > 1) out += "," + message_json("assistant", "") + ",";
    out += message_json("user", words_of(message));
  }
  return out + "]";
}

double Asker::seconds(http::ClientAnswer::Clock::time_point at) const {
  return std::chrono::duration<double>(at - options_.origin).count();
}

void Asker::restart() {
  said_.clear();
  options_.origin = http::ClientAnswer::Clock::now();
}

bool Asker::may_ask(const Planned& planned) const {
  const auto said = said_.find(planned.session);
  return planned.session < 0 || planned.turn == (said == said_.end() ? 0 : said->second.turns);
}

std::string Asker::ask(Record& record) const {
  const Planned& planned = record.planned;
  const auto said = said_.find(planned.session);
  const bool chat = planned.kind == Kind::chat && options_.chat_messages;
  record.target = chat ? "/v1/chat/completions" : "/v1/completions";
  JsonWriter json;
  json.begin_object();
  if (!options_.model.empty()) json.key("model").string(options_.model);
  if (chat) {
    const std::string message = message_json("user", words_of(planned.tokens));
    record.question =
        "[" + (said == said_.end() ? "" : said->second.messages + ",") + message + "]";
    json.key("messages").raw(record.question);
  } else {
    Tokens prompt = said == said_.end() ? Tokens{} : said->second.tokens;
    prompt.insert(prompt.end(), planned.tokens.begin(), planned.tokens.end());
    json.key("prompt");
    if (options_.text) {
      record.question = words_of(prompt);
      json.string(record.question);
    } else {
      write_ids(json, prompt);
      record.prompt = std::move(prompt);
    }
  }
  json.key("max_tokens").integer(options_.max_tokens).key("temperature").integer(0);
  json.key("ignore_eos").boolean(true).key("stream").boolean(true);
  json.key("stream_options").begin_object().key("include_usage").boolean(true).end_object();
  json.key("return_token_ids").boolean(true).end_object();
  record.digest = sha256(json.text());
  return json.take();
}

void Asker::take(Record& record, const http::ClientAnswer& answer) {
  record.ended = seconds(answer.ended);
  bool whole = false;
  std::optional<double> last;
  for (const auto& [at, data] : answer.events) {
    whole = data == "[DONE]";
    if (whole) break;
    const auto event = json::parse(data);
    if (!event.ok()) return fail(record, "malformed", event.error().message);
    if (event->find("error")) return fail(record, "in stream", complaint(data));
    const Value* usage = event->find("usage");
    if (usage && usage->is(json::Kind::object)) take_usage(record, *usage);
    const Value* choices = event->find("choices");
    bool brought = false;
    for (const Value& choice : choices ? choices->items() : json::Array{}) {
      brought = take_choice(record, choice) || brought;
    }
    if (!brought) continue;
    const double now = seconds(at);
    if (last) record.gaps.push_back(now - *last);
    if (!record.first) record.first = now;
    last = now;
  }
  if (!record.answer_tokens && !record.answer.empty()) {
    record.answer_tokens = std::ssize(record.answer);
  }
  if (answer.failure != http::ClientFailure::none) {
    return fail(record, to_string(answer.failure), answer.message);
  }
  if (answer.status != 200) {
    return fail(record, "status " + std::to_string(answer.status), complaint(answer.body));
  }
  if (!whole) return fail(record, "malformed", "the stream had no end");
  if (record.planned.session < 0) return;
  Said& said = said_[record.planned.session];
  ++said.turns;
  if (record.target == "/v1/chat/completions") {
    const std::string& asked = record.question;
    said.messages =
        asked.substr(1, asked.size() - 2) + "," + message_json("assistant", record.text);
  } else {
    said.tokens = record.prompt;
    said.tokens.insert(said.tokens.end(), record.answer.begin(), record.answer.end());
  }
}

}  // namespace cairn::load
