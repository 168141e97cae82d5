// SPDX-License-Identifier: Apache-2.0
// What tests may do to a running engine.
#pragma once

#include "actors/messages.hpp"

namespace cairn::actors {

/// That actor throws at its next message. `engine` must come from make_engine. Does nothing in
/// builds without failpoints.
void kill_actor(Engine& engine, Role role, int worker = 0);

}  // namespace cairn::actors
