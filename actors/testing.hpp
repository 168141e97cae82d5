// SPDX-License-Identifier: Apache-2.0
// What tests may do to a running engine. Builds without failpoints ignore all of it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "actors/messages.hpp"
#include "model/net/backend.hpp"

namespace cairn::actors {

/// That actor throws at its next message. `engine` must come from make_engine.
void kill_actor(Engine& engine, Role role, int worker = 0);

/// Engine::drop_cache until nothing is cached and no sequence holds memory (at most 5 s).
void drop_cache(Engine& engine);

using BackendWrapper =
    std::function<std::unique_ptr<model::Backend>(std::unique_ptr<model::Backend>)>;
/// Engines made from now on put this around their device; null: no more.
void wrap_backends(BackendWrapper wrapper);
/// A wrapper that changes the last bit of one float in every state that is copied in: the smallest
/// fault there is.
std::unique_ptr<model::Backend> add_one_ulp_to_restored_states(
    std::unique_ptr<model::Backend> inner);
/// A wrapper that makes every row of a step take that much longer: a larger model.
BackendWrapper slow_steps(std::chrono::microseconds per_row);
/// A wrapper that makes every state that is copied in take that much longer: a slower memory.
BackendWrapper slow_copies(std::chrono::microseconds per_state);

}  // namespace cairn::actors
