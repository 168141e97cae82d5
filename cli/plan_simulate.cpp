// SPDX-License-Identifier: Apache-2.0
// cairn plan simulate: a trace against policies within budgets, without a model.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/check.hpp"
#include "cli/engine_flags.hpp"
#include "cli/files.hpp"
#include "cli/plan_commands.hpp"
#include "engine/placement/policy_names.hpp"
#include "engine/simulate/oracle.hpp"
#include "engine/simulate/report.hpp"
#include "engine/simulate/simulator.hpp"
#include "model/net/memory_layout.hpp"

namespace cairn::cli {
namespace {

// Knows the trace, so only simulations have it.
constexpr const char* kOracle = "oracle";

struct SimulateFlags {
  std::string trace;
  std::vector<std::string> policies = {"forest"};
  std::vector<std::string> bytes = {"0.25GB", "1GB", "4GB", "16GB"};
  std::string state_bytes;  // "": the shape's
  std::string shape = "qwen3.5-0.8b";
  std::int32_t plan_lag = 0;
  double write_tokens = engine::kWriteTokens;
  std::int32_t kv_block = 1;
  std::int32_t block_size = 512;
  bool json = false;
  std::string html;
};

template <class T>
void add_once(std::vector<T>& to, T value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(std::move(value));
}

/// "all" spelled out; every spelling one that make_cache_policy takes.
std::vector<std::string> policies_of(const SimulateFlags& flags) {
  std::vector<std::string> policies;
  for (const std::string& policy : flags.policies) {
    if (policy == "all") {
      for (const char* each : engine::kComparedPolicies) add_once(policies, std::string(each));
    } else {
      add_once(policies, policy);
    }
  }
  for (const std::string& policy : policies) {
    if (policy == kOracle) continue;
    const auto made = engine::make_cache_policy(policy);
    if (!made) throw LoadError("--policy: " + made.error().message);
  }
  return policies;
}

std::unique_ptr<engine::CachePolicy> policy_of(const std::string& spelling,
                                               const engine::Trace& trace) {
  if (spelling == kOracle) return std::make_unique<engine::OraclePolicy>(trace);
  return engine::make_cache_policy(spelling).take();
}

/// Of one cell, on a terminal.
class Progress {
 public:
  Progress(std::string what, std::size_t requests)
      : what_(std::move(what)), requests_(requests), shown_(::isatty(STDERR_FILENO) == 1) {}
  void at(std::size_t request) {
    const std::size_t percent = 100 * (request + 1) / requests_;
    if (!shown_ || percent == percent_) return;
    percent_ = percent;
    std::fprintf(stderr, "\r%s: %3zu %%%s", what_.c_str(), percent, percent == 100 ? "\n" : "");
  }

 private:
  std::string what_;
  std::size_t requests_;
  std::size_t percent_ = 0;
  bool shown_;
};

int simulate(const SimulateFlags& flags) {
  const auto policies = policies_of(flags);
  std::vector<std::uint64_t> budgets;
  for (const std::string& text : flags.bytes) add_once(budgets, bytes_of("--bytes", text));
  const auto layout = model::memory_layout(model::shape_by_name(flags.shape), model::KvType::bf16);
  engine::SimulatorOptions options;
  options.costs = {.state_bytes = flags.state_bytes.empty()
                                      ? layout.state_bytes
                                      : bytes_of("--state-bytes", flags.state_bytes),
                   .kv_bytes_per_token = layout.kv_bytes_per_token(),
                   .kv_block = flags.kv_block};
  options.plan_lag = flags.plan_lag;
  if (std::isnan(flags.write_tokens)) throw LoadError("--write-tokens: expected a number, got nan");
  options.policy_costs.write = flags.write_tokens;
  if (!flags.html.empty()) check_writable(flags.html);  // rather now than after the work
  const auto trace = engine::read_trace(flags.trace, {.block_size = flags.block_size});

  std::vector<engine::SimulatorResult> results;
  for (const std::uint64_t budget : budgets) {
    for (const std::string& policy : policies) {
      Progress progress(policy + " within " + engine::budget_label(budget), trace->size());
      options.bytes = budget;
      options.each = [&](const engine::SimulatedRequest& r) { progress.at(r.index); };
      results.push_back(engine::simulate(*trace, policy_of(policy, *trace), options));
      if (!flags.json) continue;
      std::printf("%s\n", engine::result_json(results.back()).c_str());
      std::fflush(stdout);
    }
  }
  if (!flags.json) std::fputs(engine::result_table(results).c_str(), stdout);
  if (!flags.html.empty()) {
    write_file(flags.html,
               engine::result_html(results,
                                   {flags.trace.substr(flags.trace.rfind('/') + 1),
                                    options.costs.state_bytes, options.costs.kv_bytes_per_token}));
  }
  return 0;
}

void add_options(CLI::App& command, SimulateFlags& flags) {
  command
      .add_option("--trace", flags.trace,
                  "Requests, plain or gzip: lines of token ids, block hashes, or CSV of overlaps")
      ->required();
  command
      .add_option("--policy", flags.policies,
                  "Spellings, all (one of every kind), or oracle (knows the future)")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--bytes", flags.bytes, "Budgets for states and KV together (GB: 1e9, GiB: 2^30)")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--state-bytes", flags.state_bytes, "Of one state (default: the shape's)");
  command.add_option("--model-shape", flags.shape, "A published shape: sizes of states and KV")
      ->capture_default_str();
  command.add_option("--plan-lag", flags.plan_lag, "Requests between a plan and its use")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--write-tokens", flags.write_tokens,
                  "What copying one state out costs, in tokens of prefill")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command.add_option("--kv-block", flags.kv_block, "Tokens of the blocks that KV is charged in")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command.add_option("--block-size", flags.block_size, "Tokens of a block of a block-hash trace")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_flag("--json", flags.json, "Print one JSON object a line: a policy and a budget");
  command.add_option("--html", flags.html, "Also write a report to this file");
}

}  // namespace

void add_plan_simulate(CLI::App& plan, Action& action) {
  CLI::App* command =
      plan.add_subcommand("simulate", "What a trace would recompute under policies and budgets");
  command->footer(
      "Runs the server's own forest, planner and eviction; only the model is left out.\n"
      "Policies: " +
      engine::policy_spellings() +
      ".\n"
      "CSV: columns prompt_tokens, overlap_tokens, parent (-1 or an earlier row, from 0).\n"
      "Example:\n"
      "  cairn plan simulate --trace requests.csv.gz --policy forest,branch,dp:4 --bytes 1GB,4GB");
  auto flags = std::make_shared<SimulateFlags>();
  add_options(*command, *flags);
  command->callback([flags, &action] { action = [flags] { return simulate(*flags); }; });
}

}  // namespace cairn::cli
