// SPDX-License-Identifier: Apache-2.0
// cairn bench serve: a load on a server over HTTP, of one that runs or of one started for it.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/check.hpp"
#include "cli/bench_serve_flags.hpp"
#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/load/load.hpp"
#include "cli/serving.hpp"
#include "cli/signals.hpp"

namespace cairn::cli {
namespace {

std::string described(const EngineInfo& info) {
  return info.device + ", " + info.isa + ", weights " + info.weights + ", KV " + info.kv +
         ", activations " + info.activations + ", " + std::to_string(info.threads) +
         " threads, policy " + info.policy;
}

/// What is asked for once it has begun; then, on a terminal, one line that is written again.
class ProgressLine {
 public:
  ProgressLine(int passes, const Facts& facts)
      : passes_(passes), facts_(facts), shown_(::isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (written_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void operator()(int pass, const load::RunProgress& at) {
    if (!std::exchange(begun_, true)) {
      for (const auto& [name, value] : facts_)
        std::fprintf(stderr, "%s: %s\n", name.c_str(), value.c_str());
    }
    if (!shown_) return;
    written_ = true;
    std::fprintf(stderr, "\rpass %d of %d: %lld answered, %lld failed, %lld running, %.1f s\033[K",
                 pass + 1, passes_, static_cast<long long>(at.answered),
                 static_cast<long long>(at.failed), static_cast<long long>(at.running), at.seconds);
  }

 private:
  int passes_;
  const Facts& facts_;
  bool shown_, begun_ = false, written_ = false;
};

/// The first signal ends the load with a report of what was done, another one the process.
struct Interrupt {
  std::atomic<bool> stop{false}, loading{true};
  void on_signal() {
    if (loading || stop.exchange(true)) _exit(130);
  }
};

Serving serve_model(ServeBenchFlags& flags) {
  http::ServerOptions server;
  server.port = 0;
  server.version = kVersion;
  if (flags.load.admin_key.empty()) {
    flags.load.admin_key = "bench-" + std::to_string(std::random_device{}());
  }
  server.admin_key = flags.load.admin_key;
  Serving serving = start_serving(flags.engine, server);
  flags.load.url = "http://127.0.0.1:" + std::to_string(serving.server->port());
  return serving;
}

/// For as many connections as the system lets this process have; a server here needs as many.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// In all places that are asked for, whatever becomes of the others. Throws LoadError at the end.
void write_report(const load::Report& report, const ServeBenchFlags& flags) {
  std::string problem;
  const auto write = [&](const std::string& path, const std::string& content) {
    try {
      write_file(path, content);
    } catch (const LoadError& error) {
      problem = error.what();
    }
  };
  const auto print = [&](std::FILE* file, const std::string& content) {
    if (std::fputs(content.c_str(), file) < 0 || std::fflush(file) != 0)
      problem = "the report cannot be printed: " + std::string(std::strerror(errno));
  };
  const bool json_out = flags.json == "-";
  print(json_out ? stderr : stdout, report_text(report));
  if (json_out) print(stdout, report_json(report, flags.each));
  if (!json_out && !flags.json.empty()) write(flags.json, report_json(report, flags.each));
  if (!flags.html.empty()) write(flags.html, report_html(report));
  if (!problem.empty()) throw LoadError(problem);
}

/// The exit code, and why it is not 0.
int verdict(const load::Report& report, const ServeBenchFlags& flags, bool interrupted) {
  if (interrupted) return 130;
  if (report.ended != "complete") return complain(flags.load.url + ": " + report.ended);
  std::int64_t answered = 0;
  for (const load::Pass& pass : report.passes) {
    if (!pass.groups.empty()) answered += pass.groups.front().answered;
  }
  if (answered == 0) return complain(flags.load.url + ": no request was answered");
  if (!flags.verify) return 0;
  if (report.different > 0) {
    return complain("--verify: " + std::to_string(report.different) + " of " +
                    std::to_string(report.compared) + " answers differ from an earlier one");
  }
  if (report.compared == 0) return complain("--verify: no prompt was answered twice");
  return 0;
}

int bench_serve(ServeBenchFlags flags) {
  auto interrupt = std::make_shared<Interrupt>();
  const SignalWatcher watcher([interrupt](int, int) { interrupt->on_signal(); });
  complete(flags);
  raise_descriptor_limit();
  std::optional<Serving> serving;
  if (flags.load.url.empty()) serving.emplace(serve_model(flags));
  Facts facts = facts_of(flags);
  if (serving) facts.emplace_back("engine", described(serving->engine->info()));
  interrupt->loading = false;
  load::Report report;
  {
    ProgressLine progress(flags.load.passes, facts);
    report = run_load(flags.load, interrupt->stop,
                      [&](int pass, const load::RunProgress& at) { progress(pass, at); });
  }
  report.facts = facts;
  write_report(report, flags);
  return verdict(report, flags, interrupt->stop);
}

}  // namespace

void add_bench_serve(CLI::App& bench, Action& action) {
  CLI::App* command =
      bench.add_subcommand("serve", "Latency and throughput of a server under a load");
  command->footer(
      "Reports times to the first token, between tokens and in total, and the prompt tokens that "
      "were computed beside what a cache without limits would compute.\n"
      "With --rate, times count from when a request was to be sent, so that a server that stalls "
      "cannot hide it.\n"
      "Examples:\n"
      "  cairn bench serve --model demo --workload documents --concurrency 4 --verify\n"
      "  cairn bench serve --url http://127.0.0.1:8080 --rate 2 --duration 60 --html load.html");
  auto flags = std::make_shared<ServeBenchFlags>();
  add_serve_bench_flags(*command, *flags);
  command->callback([flags, command, &action] {
    if (flags->load.url.empty() && command->count("--model") == 0) {
      throw CLI::RequiredError("--url or --model");
    }
    if (command->count("--mix") > 0 && flags->workload != "mix") {
      throw CLI::ExcludesError("--mix", "--workload " + flags->workload);
    }
    for (const CLI::Option* option : command->get_options()) {
      if (option->count() > 0) flags->given.push_back(option->get_name());
    }
    action = [flags] { return bench_serve(*flags); };
  });
}

}  // namespace cairn::cli
