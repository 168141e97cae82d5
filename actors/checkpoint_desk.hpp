// SPDX-License-Identifier: Apache-2.0
// The checkpoints actor: takes over what the executor copied out. On a CPU the host arena is the
// memory that states run in, so a state that arrives is already in its tier (architecture, decision
// 7): it is checked and entered.
#pragma once

#include <memory>

#include "actors/mail.hpp"
#include "actors/shared.hpp"

namespace cairn::actors {

/// Owned by the checkpoints actor. A state it refuses is dropped: that costs recomputing, nothing
/// else.
class CheckpointDesk {
 public:
  CheckpointDesk(std::shared_ptr<Shared> shared, Mail& mail);

  void handle(const CheckpointMessage& message);

 private:
  void on(const Saved& m);
  void on(const EndOfSaves& m);

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
};

}  // namespace cairn::actors
