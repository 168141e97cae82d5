// SPDX-License-Identifier: Apache-2.0
// Options of cairn bench serve.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/engine_flags.hpp"
#include "cli/load/load.hpp"

namespace CLI {
class App;
}

namespace cairn::cli {

struct ServeBenchFlags {
  EngineFlags engine;
  load::LoadOptions load;
  std::string workload = "mix";
  std::vector<std::string> mix = {"documents=4", "overlaps=2", "chat=3", "short=1"};
  std::string drop = "never";
  double timeout_seconds = 600;
  bool chat_ids = false, verify = false, each = false;
  std::string memory = "1GiB";
  std::string json, html;
  std::vector<std::string> given;  // names of the options on the command line
};

void add_serve_bench_flags(CLI::App& command, ServeBenchFlags& flags);

/// What the flags say, in `flags.load`. Throws LoadError for what makes no sense and for files that
/// cannot be written.
void complete(ServeBenchFlags& flags);

using Facts = std::vector<std::pair<std::string, std::string>>;
/// What is asked for, as the report shows it and the terminal at start.
Facts facts_of(const ServeBenchFlags& flags);

}  // namespace cairn::cli
