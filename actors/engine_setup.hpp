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

/// Seconds that copying one state takes, in the host's memory or in an arena. In the host's four
/// states' memory of its own is taken: it has its pages where `pools` has those of some states
/// ahead, else it was never written, as what the first copies out go to. The quickest of a few.
double seconds_to_copy_state(model::Backend& backend, engine::MemoryPools& pools,
                             model::Arena* arena);

/// Everything but what only a running engine knows. Options, bundle, context and disk are set.
EngineInfo describe(const Shared& shared, const model::BackendInfo& backend,
                    const model::MemoryLayout& layout);
/// The metrics that never change.
void count_limits(const EngineInfo& info, const Shared& shared);

}  // namespace cairn::actors
