// SPDX-License-Identifier: Apache-2.0
// Planned requests as bodies of the OpenAI API, and answers as what they tell. Keeps what was said
// in conversations.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/load/record.hpp"
#include "http/client.hpp"

namespace cairn::load {

struct AskOptions {
  std::string model;            // "": whatever the server has
  bool text = false;            // prompts as text, a word a token, not as token ids
  bool chat_messages = true;    // conversations through /v1/chat/completions, else as token ids
  std::int32_t max_tokens = 8;  // of an answer, which never ends before
  http::ClientAnswer::Clock::time_point origin;  // of all times
};

/// One owner.
class Asker {
 public:
  explicit Asker(AskOptions options) : options_(std::move(options)) {}

  /// Whether what a turn goes on from was answered.
  bool may_ask(const Planned& planned) const;
  /// Fills target, question, prompt and digest in; returns the body.
  /// For what may be asked.
  std::string ask(Record& record) const;
  /// Fills the rest in.
  void take(Record& record, const http::ClientAnswer& answer);
  /// What was said in a conversation that has ended.
  void forget(std::int64_t session) { said_.erase(session); }
  /// A new pass: conversations begin anew, and times count from now.
  void restart();
  double seconds(http::ClientAnswer::Clock::time_point at) const;

 private:
  struct Said {
    std::int32_t turns = 0;
    Tokens tokens;         // as ids: all so far
    std::string messages;  // as messages: all so far, separated by commas
  };
  AskOptions options_;
  std::map<std::int64_t, Said> said_;  // by session
};

/// The messages of a conversation as /tokenize takes them: those of the user, whose answers are
/// empty.
std::string conversation(const std::vector<Tokens>& messages);

/// A word for each token; equal tokens give equal words.
std::string words_of(const Tokens& tokens);

}  // namespace cairn::load
