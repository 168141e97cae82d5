// SPDX-License-Identifier: Apache-2.0
// The disk actor: writes states behind and reads them back, on a thread of its own. Nobody waits
// for it but requests that would compute for longer than it reads.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/mail.hpp"
#include "actors/shared.hpp"
#include "engine/cache/disk_store.hpp"

namespace cairn::actors {

/// Owned by the disk actor. Without a store (Shared::disk) every message is answered with nothing
/// done. A state that cannot be written or read costs recomputing, nothing else.
class DiskDesk {
 public:
  DiskDesk(std::shared_ptr<Shared> shared, Mail& mail);

  void handle(const DiskMessage& message);

 private:
  void on(const StoreState& m);
  void on(const Forecast& m);
  void on(const FetchState& m);
  void on(const PurgeDisk& m);
  void on(const StoreLearned& m);
  void on(const DiskTick& m);

  void store(const engine::SavedState& saved, double rate);
  bool copy_tail(const std::byte* block, std::int32_t tokens);
  bool fetch(DiskFetch& fetch);
  void publish_gauges();

  std::shared_ptr<Shared> shared_;
  Mail& mail_;
  std::vector<std::byte> tail_;        // a partial block, without the slots behind the state
  std::vector<std::byte> tail_block_;  // of a device's memory
  engine::DiskStat counted_;           // what the counters have been told so far
};

}  // namespace cairn::actors
