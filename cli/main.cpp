// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/commands.hpp"
#include "cli/logging.hpp"

namespace cairn::cli {

int complain(const std::string& message) {
  std::fprintf(stderr, "cairn: %s\n", message.c_str());
  return 1;
}

namespace {

// The parser itself would only say that one is missing.
bool has_subcommand(CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    if (command->get_name() == name) return true;
  return false;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"cairn serves Qwen3.5-style hybrid language models and keeps what it has computed.",
               "cairn"};
  app.set_version_flag("--version", std::string("cairn ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  cairn serve --model demo                      the built-in demo model on port 8080\n"
      "  cairn run --model demo --prompt 'Hello'       one answer\n"
      "  cairn bench model --shape qwen3.5-0.8b        speed on this machine, no files needed\n"
      "  cairn SUBCOMMAND --help                       all options of a subcommand");
  std::string level = "info";
  app.add_option("--log-level", level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  Action action;
  add_serve(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_model(app, action);
  add_plan(app, action);
  add_cache(app, action);
  if (argc > 1 && argv[1][0] != '-' && !has_subcommand(app, argv[1])) {
    complain("there is no subcommand '" + std::string(argv[1]) + "' (cairn --help lists them)");
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    complain(std::string(error.what()) + " (cairn --help shows how)");
    return 2;
  }
  start_logging(level);
  return action ? action() : 0;
}

}  // namespace
}  // namespace cairn::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is a full disk: the write says so
  try {
    const int status = cairn::cli::parse_and_run(argc, argv);
    // A full disk or a closed pipe shows only when what was printed is written out.
    std::cout.flush();
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
    if (!written && status == 0)
      return cairn::cli::complain("standard output could not be written");
    return status;
  } catch (const std::exception& error) {
    return cairn::cli::complain(error.what());
  }
}
