// SPDX-License-Identifier: Apache-2.0
#include "cli/logging.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/log.hpp"

namespace cairn::cli {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void start_logging(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("cairn");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  set_log_sink([logger](LogLevel at, std::string_view message) {
    logger->log(spdlog_level(at), spdlog::string_view_t(message.data(), message.size()));
  });
}

}  // namespace cairn::cli
