// SPDX-License-Identifier: Apache-2.0
#include "actors/checkpoint_desk.hpp"

#include <utility>

#include "base/failpoints.hpp"
#include "base/log.hpp"
#include "metrics/metrics.hpp"

namespace cairn::actors {
namespace {

// A state covers its position: tokens, and KV of every position below it.
bool is_whole(const engine::SavedState& saved) {
  return saved.state && saved.tokens && saved.position > 0 &&
         saved.tokens->size() >= static_cast<std::size_t>(saved.position) &&
         saved.blocks.size() == static_cast<std::size_t>(engine::blocks_for(saved.position));
}

}  // namespace

CheckpointDesk::CheckpointDesk(std::shared_ptr<Shared> shared, Mail& mail)
    : shared_(std::move(shared)), mail_(mail) {}

void CheckpointDesk::handle(const CheckpointMessage& message) {
  std::visit([this](const auto& m) { on(m); }, message);
}

void CheckpointDesk::on(const Saved& m) {
  if (hit_failpoint("host.store")) {
    shared_->metrics->state_checkpoint_skipped_total(SkipReason::no_room).add();
    return;
  }
  if (!is_whole(*m.saved)) {
    log(LogLevel::error, "a state without the tokens or KV of its position was refused");
    shared_->metrics->state_checkpoint_skipped_total(SkipReason::not_worth).add();
    return;
  }
  mail_.prefix(Publish{m.saved});
}

void CheckpointDesk::on(const EndOfSaves& m) { mail_.prefix(SequenceOver{m.seq}); }

}  // namespace cairn::actors
