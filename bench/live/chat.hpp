// SPDX-License-Identifier: Apache-2.0
// What the default rule costs where there is nothing to gain: a chat that only grows, beside a rule
// that keeps nothing but ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/live/findings.hpp"

namespace cairn::bench {

struct ChatOptions {
  std::string model;
  int threads = 0;                                     // 0: physical cores
  std::uint64_t cache_bytes = std::uint64_t{8} << 30;  // of each engine: nothing has to go
  int chats = 2;   // engines are started anew for each, in the other order
  int turns = 30;  // of each chat, its opening not counted
  std::int32_t opening = 256, message = 64, answer = 4;  // tokens
};

struct ChatResult {
  struct Side {
    std::vector<double> seconds;             // to the first token, by turn
    std::int64_t prompts = 0, computed = 0;  // tokens, openings included
    double stored = 0;                       // states
  };
  Side last, forest;
  int different = 0;  // answers
};

/// Every turn is put to both engines, one after the other, by chance either first. Throws
/// LoadError.
ChatResult measure_chat(const ChatOptions& options);
Findings findings_of(const ChatResult& result);

}  // namespace cairn::bench
