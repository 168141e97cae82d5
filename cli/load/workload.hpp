// SPDX-License-Identifier: Apache-2.0
// What clients ask for: shared documents, prompts that leave one, conversations, short prompts.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cairn::load {

using Tokens = std::vector<std::int32_t>;

enum class Kind : std::uint8_t { documents, overlaps, chat, short_prompts };
inline constexpr std::array kKinds = {Kind::documents, Kind::overlaps, Kind::chat,
                                      Kind::short_prompts};
/// "documents", "overlaps", "chat", "short".
const char* to_string(Kind kind);
/// Throws LoadError for a name that is none.
Kind kind_of(const std::string& name);

struct WorkloadOptions {
  std::array<double, kKinds.size()> weights{};  // by Kind, not negative, one above 0
  std::uint64_t seed = 1;
  std::int32_t vocabulary = 0;  // ids are below
  std::int32_t documents = 4;   // asked about at the same time
  std::int32_t document_tokens = 2000;
  std::int32_t questions = 8;  // of a document, then another takes its place
  std::int32_t question_tokens = 50;
  // Where prompts leave their document, percent of its tokens, in some order; the document is
  // looked at whole first.
  std::vector<double> leave = {23, 41, 57, 68, 77, 84, 91, 100};
  std::int32_t conversations = 4;  // at the same time
  std::int32_t turns = 6;
  std::int32_t opening_tokens = 256, message_tokens = 50;  // of a first and of a later message
  std::int32_t short_tokens = 64;
};

/// A request as planned.
struct Planned {
  Kind kind = Kind::documents;
  std::int64_t session = -1;  // the conversation, numbered from 0; -1: none
  std::int32_t turn = 0;      // of the conversation, from 0
  bool last = false;          // of its turns
  Tokens tokens;              // the whole prompt; of a conversation the new message
};

/// An endless row of requests that depends on nothing but its options: the kinds are drawn by
/// weight, and what each asks for does not depend on the others. One owner.
class Workload {
 public:
  /// Throws LoadError for sizes that are not possible.
  explicit Workload(WorkloadOptions options);
  Planned next();

 private:
  struct Document {
    Tokens tokens;
    std::int32_t asked = 0;
  };
  Planned question();
  Planned departure();
  Planned message();
  Planned short_prompt();
  Tokens fresh(Kind kind, std::int64_t count);
  std::mt19937_64& random(Kind kind) { return random_[static_cast<std::size_t>(kind)]; }

  WorkloadOptions options_;
  std::array<std::mt19937_64, kKinds.size()> random_;
  std::mt19937_64 draw_;
  std::vector<Document> documents_;
  Tokens left_;                       // the document that prompts leave
  std::deque<std::int64_t> leaving_;  // after how many of its tokens
  std::int64_t messages_ = 0;         // so far
};

}  // namespace cairn::load
