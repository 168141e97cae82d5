// SPDX-License-Identifier: Apache-2.0
// The prefix actor without threads, seen from the planner.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/prefix_desk.hpp"
#include "metrics/metrics.hpp"
#include "tests/actors/tiny.hpp"

namespace cairn::tests {

/// Keeps what the planner would get and drops the rest.
class PlannerMail final : public actors::Mail {
 public:
  std::vector<actors::Observed> seen;
  int granted = 0;

  void planner(actors::PlannerMessage message) override {
    seen.push_back(std::move(std::get<actors::Observed>(message)));
  }
  void router(actors::RouterMessage message) override {
    granted += std::holds_alternative<actors::Granted>(message) ? 1 : 0;
  }
  void router_after(std::chrono::milliseconds, actors::RouterMessage) override {}
  void prefix(actors::PrefixMessage) override {}
  void prefix_after(std::chrono::milliseconds, actors::PrefixMessage) override {}
  void executor(actors::ExecutorMessage) override {}
  void executor_urgent(actors::ExecutorMessage) override {}
  void checkpoints(actors::CheckpointMessage) override {}
  void disk(actors::DiskMessage) override {}
  void disk_after(std::chrono::milliseconds, actors::DiskMessage) override {}
  void worker(int, actors::WorkerMessage) override {}
};

/// What a desk of that policy needs, with room for every path that is told to it.
inline std::shared_ptr<actors::Shared> shared_for(const std::string& policy) {
  auto shared = std::make_shared<actors::Shared>();
  shared->options = tiny();
  shared->options.policy = policy;
  shared->context_length = 512;
  shared->metrics = std::make_shared<Metrics>();
  shared->pools = std::make_shared<engine::MemoryPools>(
      model::MemoryLayout{.kv_block_bytes = 128, .state_bytes = 1024}, 1 << 20);
  return shared;
}

/// One request from look-up to end; nothing of it is saved.
inline void serve(actors::PrefixDesk& desk, actors::SequenceId seq,
                  std::vector<std::int32_t> prompt) {
  auto request = std::make_shared<engine::LookupRequest>();
  request->id = seq;
  request->tokens = std::make_shared<const std::vector<std::int32_t>>(std::move(prompt));
  request->max_new = 4;
  desk.handle(actors::Lookup{request, 1});
  desk.handle(actors::SequenceOver{seq});
}

}  // namespace cairn::tests
