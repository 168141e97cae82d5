// SPDX-License-Identifier: Apache-2.0
// cairn plan: the placement programme by hand.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/plan_commands.hpp"
#include "engine/placement/plan_solve.hpp"

namespace cairn::cli {

void add_plan(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("plan", "Checkpoint placement without a model");
  command->require_subcommand(1);
  add_plan_simulate(*command, action);
  add_plan_explain(*command, action);
  CLI::App* solve = command->add_subcommand("solve", "Optimal states for a demand or a forest");
  solve->footer(
      "The input is JSON: depths with weights, and how many states may be kept; or a forest of\n"
      "prefixes with rates, and either what a byte must earn (price, seconds of prefill per "
      "second\n"
      "and byte) or how many bytes there are (budget_bytes).\n"
      "Examples:\n"
      "  echo '{\"demand\": [[512, 3], [2048, 1]], \"budget\": 1}' | cairn plan solve -\n"
      "  echo '{\"nodes\": [{\"parent\": -1, \"depth\": 500, \"demand\": 0.5},\n"
      "                   {\"parent\": 0, \"depth\": 900, \"demand\": 2, \"can_hold\": true}],\n"
      "         \"state_bytes\": 20201472, \"kv_bytes_per_token\": 12288,\n"
      "         \"budget_bytes\": 40000000}' | cairn plan solve -");
  auto path = std::make_shared<std::string>();
  solve->add_option("FILE", *path, "The problem; - reads standard input")->required();
  solve->callback([path, &action] {
    action = [path] {
      const auto answer = engine::solve_plan_json(read_input(*path));
      if (!answer) return complain(*path + ": " + answer.error().message);
      std::printf("%s\n", answer->c_str());
      return 0;
    };
  });
}

}  // namespace cairn::cli
