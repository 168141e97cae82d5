// SPDX-License-Identifier: Apache-2.0
#include "cli/serving.hpp"

#include "base/check.hpp"
#include "metrics/metrics.hpp"

namespace cairn::cli {

Serving start_serving(const EngineFlags& engine, const http::ServerOptions& server) {
  const auto metrics = std::make_shared<Metrics>();
  Serving serving;
  serving.engine = make_engine(engine_options(engine), metrics);
  serving.server = std::make_unique<http::Server>(serving.engine, metrics, server);
  if (const auto status = serving.server->start(); !status) throw LoadError(status.error().message);
  return serving;
}

}  // namespace cairn::cli
