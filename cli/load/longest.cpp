// SPDX-License-Identifier: Apache-2.0
#include "cli/load/longest.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace cairn::load {
namespace {

/// All that is asked in one conversation, or the prompt of another kind.
std::vector<Tokens> one_of(const WorkloadOptions& workload, Kind kind) {
  WorkloadOptions alone = workload;
  alone.weights = {};
  alone.weights[static_cast<std::size_t>(kind)] = 1;
  alone.conversations = alone.documents = 1;
  Workload requests(alone);
  std::vector<Tokens> asked(static_cast<std::size_t>(kind == Kind::chat ? workload.turns : 1));
  for (Tokens& each : asked) each = requests.next().tokens;
  return asked;
}

}  // namespace

std::int64_t longest(const WorkloadOptions& workload, const AskOptions& ask, const Served& server) {
  std::int64_t most = 0;
  for (const Kind kind : kKinds) {
    if (workload.weights[static_cast<std::size_t>(kind)] <= 0) continue;
    const std::vector<Tokens> asked = one_of(workload, kind);
    const bool messages = kind == Kind::chat && ask.chat_messages;
    std::int64_t tokens = std::accumulate(
        asked.begin(), asked.end(), std::int64_t{0},
        [](std::int64_t sum, const Tokens& each) { return sum + std::ssize(each); });
    if (messages || ask.text) {
      const auto told = server.tokens_of(messages ? conversation(asked) : words_of(asked[0]));
      if (!told) continue;
      tokens = std::ssize(*told);
    }
    most = std::max(most, tokens + std::ssize(asked) * ask.max_tokens);
  }
  return most;
}

}  // namespace cairn::load
