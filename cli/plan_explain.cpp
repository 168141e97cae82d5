// SPDX-License-Identifier: Apache-2.0
// cairn plan explain: the forest of a running server, or of a file saved from one.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/check.hpp"
#include "cli/files.hpp"
#include "cli/plan_commands.hpp"
#include "engine/placement/plan_snapshot.hpp"
#include "engine/simulate/report_plan.hpp"
#include "http/fetch.hpp"

namespace cairn::cli {
namespace {

struct ExplainFlags {
  std::string source;
  std::string api_key;
  bool svg = false;
};

std::string read_source(const ExplainFlags& flags) {
  if (flags.source.starts_with("https://")) {
    throw LoadError(flags.source +
                    ": only http:// is spoken; save /debug/plan with another client");
  }
  if (!flags.source.starts_with("http://")) return read_input(flags.source);
  http::FetchOptions options;
  options.api_key = flags.api_key;
  std::string url = flags.source;
  constexpr std::size_t kScheme = 7;
  if (url.size() > kScheme && url.ends_with('/')) url.pop_back();
  if (url.find('/', kScheme) == std::string::npos) url += "/debug/plan";  // a bare address
  auto body = http::fetch(url, options);
  if (!body) throw LoadError(body.error().message);
  return body.take();
}

int explain(const ExplainFlags& flags) {
  const auto snapshot = engine::parse_plan_snapshot(read_source(flags));
  if (!snapshot) return complain(flags.source + ": " + snapshot.error().message);
  std::fputs((flags.svg ? engine::plan_svg(*snapshot) : engine::plan_text(*snapshot)).c_str(),
             stdout);
  return 0;
}

}  // namespace

void add_plan_explain(CLI::App& plan, Action& action) {
  CLI::App* command = plan.add_subcommand("explain", "What is kept, where, and why");
  command->footer(
      "Every state with the rate of requests it serves, its bytes and what a byte of it is\n"
      "predicted to save; \"> \" goes on from the line above, \"+ \" is one way out of a fork.\n"
      "Examples:\n"
      "  cairn plan explain http://127.0.0.1:8080\n"
      "  curl -s http://127.0.0.1:8080/debug/plan > plan.json; cairn plan explain plan.json --svg");
  auto flags = std::make_shared<ExplainFlags>();
  command
      ->add_option("FILE|URL", flags->source,
                   "A saved snapshot (- reads standard input) or a server's address")
      ->required();
  command->add_option("--api-key", flags->api_key, "For a server that asks for one")
      ->envname("CAIRN_API_KEY");
  command->add_flag("--svg", flags->svg, "Draw it");
  command->callback([flags, &action] { action = [flags] { return explain(*flags); }; });
}

}  // namespace cairn::cli
