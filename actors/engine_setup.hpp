// SPDX-License-Identifier: Apache-2.0
// What an engine's options come to on this machine: checked, filled in, told to people.
#pragma once

#include <cstdint>

#include "actors/shared.hpp"
#include "model/net/backend.hpp"

namespace cairn::actors {

/// Throws LoadError naming the first option that cannot be and what was expected.
void check_options(const EngineOptions& options);
/// Tokens of prompt and answer: as asked, or the model's. Throws LoadError above that.
std::int32_t resolve_context(const EngineOptions& options, const model::ModelConfig& config);

/// Seconds that copying one state takes: in the host's memory to places that have their pages, or
/// without `pages_ahead` to such that were never written, as the first copies out do, in four
/// states' memory of its own; in an arena within `pools`. The quickest of a few.
double seconds_to_copy_state(model::Backend& backend, engine::MemoryPools& pools,
                             model::Arena* arena, bool pages_ahead);

/// Everything but what only a running engine knows. Options, bundle, context and disk are set.
EngineInfo describe(const Shared& shared, const model::BackendInfo& backend,
                    const model::MemoryLayout& layout);
/// The metrics that never change.
void count_limits(const EngineInfo& info, const Shared& shared);

}  // namespace cairn::actors
