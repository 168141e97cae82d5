// SPDX-License-Identifier: Apache-2.0
// The disk tier of one engine: its fingerprint, its default size, its store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/cache/disk_store.hpp"
#include "engine/engine.hpp"
#include "engine/model_bundle.hpp"

namespace cairn::actors {

/// Everything that decides the bits of this engine's states (architecture, decision 8).
engine::Fingerprint fingerprint_of(const engine::ModelBundle& bundle,
                                   const model::BackendInfo& backend);

/// A quarter of what is free and of what lies under `dir` already, so that a store keeps its size
/// from start to start; at most 64 GiB, which it also is where `free` is unknown.
std::uint64_t default_disk_bytes(const std::string& dir, std::optional<std::uint64_t> free);

/// Opens options.disk_dir, for states that lie in `arena` where there is one, and sets
/// options.disk_bytes where it is 0. Null where no directory is named, and, with a warning in the
/// log, where it is there and cannot be written now (full, read-only) or its default size holds no
/// state. Throws LoadError where it cannot be used at all: no directory, not to be made, somebody
/// else's, another process's, no cache; or where it is to hold less than a state.
std::unique_ptr<engine::DiskStore> open_disk_tier(EngineOptions& options,
                                                  const engine::ModelBundle& bundle,
                                                  const model::BackendInfo& backend,
                                                  const model::MemoryLayout& layout,
                                                  std::shared_ptr<model::Arena> arena);

}  // namespace cairn::actors
