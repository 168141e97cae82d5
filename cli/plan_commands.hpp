// SPDX-License-Identifier: Apache-2.0
// Subcommands of `cairn plan`.
#pragma once

#include "cli/commands.hpp"

namespace cairn::cli {

void add_plan_simulate(CLI::App& plan, Action& action);
void add_plan_explain(CLI::App& plan, Action& action);

}  // namespace cairn::cli
