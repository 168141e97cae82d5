// SPDX-License-Identifier: Apache-2.0
// The options that every subcommand with an engine has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.hpp"

namespace CLI {
class App;
}

namespace cairn::cli {

/// The size that a flag names. Throws LoadError for one that is none, and for 0 with `zero`.
std::uint64_t bytes_of(const std::string& option, const std::string& text,
                       const char* zero = "expected at least 1 byte");

/// Shows on a terminal how far loading is; empty where stderr is none.
LoadProgress progress_line();

/// What the flags set; read after parsing.
struct EngineFlags {
  EngineOptions options;
  std::string cache_bytes;  // "2GiB"
  std::string pages_ahead;
  std::string disk_bytes;
  std::int64_t disk_max_age_seconds = 0;
};

/// Adds what the model runs on and in: --device, --weights, --weights-cache, --gemm, --threads,
/// --isa, --kv, --activations.
/// `options` must live as long as the parser.
void add_device_flags(CLI::App& command, EngineOptions& options);

/// Adds --model, those and the engine's limits. `flags` must live as long as the parser.
void add_engine_flags(CLI::App& command, EngineFlags& flags);

/// The options with sizes parsed and a progress line on a terminal. Throws LoadError for a size
/// that is none.
EngineOptions engine_options(const EngineFlags& flags);

}  // namespace cairn::cli
