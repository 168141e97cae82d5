// SPDX-License-Identifier: Apache-2.0
// A plan as people look at it. Only states and the forks between them are shown; what lies below or
// between without a state is counted with the state that serves it.
#pragma once

#include <string>

#include "engine/placement/plan_snapshot.hpp"

namespace cairn::engine {

/// A line a state or fork: depth, kind, rate served, bytes, value a byte and in prices. "> " goes
/// on from the line above, "+ " is one way of several that leave the last line indented less.
std::string plan_text(const PlanSnapshot& snapshot);

/// An <svg> element that stands alone: depth to the right, a row a leaf, states coloured by kind.
std::string plan_svg(const PlanSnapshot& snapshot);

}  // namespace cairn::engine
