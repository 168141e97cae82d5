// SPDX-License-Identifier: Apache-2.0
// The subcommands of the program. Each adds itself to the parser and runs when it was asked for.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace cairn::cli {

inline constexpr const char* kVersion = "0.1.0";

/// What the chosen subcommand does; returns the exit code. Set by the parser, run after it.
using Action = std::function<int()>;

void add_serve(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_bench_kernels(CLI::App& bench, Action& action);  // below `bench`
void add_bench_serve(CLI::App& bench, Action& action);    // below `bench`
void add_model(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_cache(CLI::App& app, Action& action);

/// "cairn: message" on stderr; returns 1.
int complain(const std::string& message);

}  // namespace cairn::cli
