// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "model/net/backend.hpp"

namespace cairn::actors {

/// The device as tests want it (wrap_backends), or as it is.
std::unique_ptr<model::Backend> wrapped(std::unique_ptr<model::Backend> backend);

}  // namespace cairn::actors
