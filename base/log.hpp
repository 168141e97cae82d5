// SPDX-License-Identifier: Apache-2.0
// Where every room writes what an operator should read. The program that links us picks the sink.
#pragma once

#include <functional>
#include <string_view>

namespace cairn {

enum class LogLevel { debug, info, warning, error };

using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink for the whole process (default: nothing is written). Thread-safe.
void set_log_sink(LogSink sink);

/// Thread-safe; the sink is called on the calling thread and must not block for long.
void log(LogLevel level, std::string_view message);

}  // namespace cairn
