// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cli/engine_flags.hpp"
#include "http/server.hpp"

namespace cairn::cli {

/// An engine behind a server that listens. Destroying stops at once.
struct Serving {
  std::shared_ptr<Engine> engine;
  std::unique_ptr<http::Server> server;
};

/// Loads the model and listens. Throws LoadError, also for a port that is taken.
Serving start_serving(const EngineFlags& engine, const http::ServerOptions& server);

}  // namespace cairn::cli
