// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/load/workload.hpp"

namespace cairn::load {

/// One request and what became of it. Times are seconds since its pass began.
struct Record {
  Planned planned;       // its tokens only until it is sent
  bool warm_up = false;  // sent to prepare, not to be measured
  std::string target;    // "/v1/completions"
  std::string question;  // what /tokenize takes for its prompt; "" where that is `prompt`
  Tokens prompt;         // its tokens; empty: not known
  std::string digest;    // equal for equal bodies

  double intended = 0;          // when it was to be sent: latencies count from here
  double sent = 0;              // later by what the client was late
  std::optional<double> first;  // token seen
  double ended = 0;
  std::vector<double> gaps;  // seconds between tokens seen, one after another
  std::string text;
  Tokens answer;                              // its tokens, where the server tells
  std::optional<std::int64_t> prompt_tokens;  // this and the next two as the server counts
  std::optional<std::int64_t> cached_tokens;
  std::optional<std::int64_t> answer_tokens;
  std::optional<std::int64_t> needed;  // tokens that a cache without limits computes
  std::string error;                   // its kind, "" for none; and what was said
  std::string message;

  bool answered() const { return error.empty(); }
  double to_first() const { return first.value_or(ended) - intended; }
  double total() const { return ended - intended; }
  /// Prompt tokens that did not come from the server's cache; unset where it does not tell, or
  /// tells of more cached tokens than there are.
  std::optional<std::int64_t> computed() const {
    if (!prompt_tokens || !cached_tokens || *cached_tokens > *prompt_tokens) return std::nullopt;
    return *prompt_tokens - *cached_tokens;
  }
};

}  // namespace cairn::load
