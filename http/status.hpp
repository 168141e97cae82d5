// SPDX-License-Identifier: Apache-2.0
// What the status page shows, as JSON.
#pragma once

#include <string>

#include "http/state.hpp"

namespace cairn::http {

std::string status_body(const State& state);

}  // namespace cairn::http
