// SPDX-License-Identifier: Apache-2.0
// cairn bench serve: a load on a server over HTTP, of one that runs or of one started for it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/engine_flags.hpp"
#include "cli/files.hpp"
#include "cli/load/load.hpp"
#include "cli/serving.hpp"
#include "cli/signals.hpp"

namespace cairn::cli {
namespace {

using load::Kind;

constexpr std::int64_t kAnyNumber = 1'000'000'000;  // of requests, where --duration ends a pass

struct ServeBenchFlags {
  EngineFlags engine;
  load::LoadOptions load;
  std::string workload = "mix";
  std::vector<std::string> mix = {"documents=4", "overlaps=2", "chat=3", "short=1"};
  std::string drop = "never";
  double timeout_seconds = 600;
  bool chat_ids = false, verify = false, each = false;
  std::string json, html;
};

std::array<double, load::kKinds.size()> weights_of(const ServeBenchFlags& flags) {
  std::array<double, load::kKinds.size()> weights{};
  if (flags.workload != "mix") {
    weights[static_cast<std::size_t>(load::kind_of(flags.workload))] = 1;
    return weights;
  }
  for (const std::string& part : flags.mix) {
    const std::size_t equals = part.find('=');
    const Kind kind = load::kind_of(part.substr(0, equals));
    double weight = 0;
    if (equals == std::string::npos ||
        !CLI::detail::lexical_cast(part.substr(equals + 1), weight)) {
      throw LoadError("--mix: expected workload=weight, got '" + part + "'");
    }
    weights[static_cast<std::size_t>(kind)] = weight;
  }
  return weights;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

using Facts = std::vector<std::pair<std::string, std::string>>;

/// What is asked for, as the report shows it and the terminal at start.
Facts facts_of(const ServeBenchFlags& flags) {
  const load::LoadOptions& o = flags.load;
  std::string sizes, shares;
  for (const Kind kind : load::kKinds) {
    const double weight = o.workload.weights[static_cast<std::size_t>(kind)];
    if (weight > 0)
      shares += (shares.empty() ? "" : ", ") + std::string(to_string(kind)) + " " + number(weight);
  }
  const load::WorkloadOptions& w = o.workload;
  const auto add = [&](const char* name, double value) {
    sizes += (sizes.empty() ? "" : ", ") + std::string(name) + " " + number(value);
  };
  add("documents", w.documents);
  add("document-tokens", w.document_tokens);
  add("questions", w.questions);
  add("question-tokens", w.question_tokens);
  add("conversations", w.conversations);
  add("turns", w.turns);
  add("opening-tokens", w.opening_tokens);
  add("message-tokens", w.message_tokens);
  add("short-tokens", w.short_tokens);
  add("max-tokens", o.ask.max_tokens);
  std::string limits;
  if (o.limits.requests < kAnyNumber)
    limits = "requests " + std::to_string(o.limits.requests) + ", ";
  if (o.limits.seconds) limits += "seconds " + number(*o.limits.seconds) + ", ";
  limits += "timeout " + number(flags.timeout_seconds) + " s";
  return {
      {"workload", shares},
      {"sizes", sizes},
      {"loop", o.limits.rate ? "open, " + number(*o.limits.rate) + " requests/s"
                             : "closed, " + std::to_string(o.limits.concurrency) + " at a time"},
      {"limits", limits},
      {"passes", std::to_string(o.passes) + ", cache dropped: " + flags.drop},
      {"warm_up", std::to_string(o.warm_up)},
      {"seed", std::to_string(w.seed)}};
}

std::string described(const EngineInfo& info) {
  return info.device + ", " + info.isa + ", weights " + info.weights + ", KV " + info.kv + ", " +
         std::to_string(info.threads) + " threads, policy " + info.policy;
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

void complete(ServeBenchFlags& flags) {
  load::LoadOptions& o = flags.load;
  while (o.url.ends_with('/')) o.url.pop_back();
  o.workload.weights = weights_of(flags);
  o.limits.seed = o.workload.seed;
  o.limits.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * flags.timeout_seconds));
  o.ask.chat_messages = !flags.chat_ids;
  if (flags.drop == "first") o.drop = load::Drop::first;
  if (flags.drop == "each") o.drop = load::Drop::each;
  if (o.limits.requests == 0) o.limits.requests = o.limits.seconds ? kAnyNumber : 64;
  if (!flags.html.empty()) check_writable(flags.html);  // rather now than after the work
  if (!flags.json.empty() && flags.json != "-") check_writable(flags.json);
}

void write_report(const load::Report& report, const ServeBenchFlags& flags) {
  const std::string text = report_text(report);
  const bool json_out = flags.json == "-";
  std::fputs(text.c_str(), json_out ? stderr : stdout);
  if (json_out) std::fputs(report_json(report, flags.each).c_str(), stdout);
  if (!json_out && !flags.json.empty()) write_file(flags.json, report_json(report, flags.each));
  if (!flags.html.empty()) write_file(flags.html, report_html(report));
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

void add_target_flags(CLI::App& command, ServeBenchFlags& flags) {
  add_engine_flags(command, flags.engine);
  const auto of_engine =
      command.get_options([](const CLI::Option* o) { return o->get_name() != "--help"; });
  auto* url = command.add_option(
      "--url", flags.load.url,
      "A running server, as in http://127.0.0.1:8080 (default: one is started for --model)");
  for (CLI::Option* option : of_engine) option->excludes(url);
  command.add_option("--api-key", flags.load.api_key, "Key of the server")
      ->envname("CAIRN_API_KEY");
  command
      .add_option("--admin-key", flags.load.admin_key, "Admin key of the server, for --drop-cache")
      ->envname("CAIRN_ADMIN_KEY");
}

void add_workload_flags(CLI::App& command, ServeBenchFlags& flags) {
  load::WorkloadOptions& w = flags.load.workload;
  command.add_option("--workload", flags.workload, "documents, overlaps, chat, short or mix")
      ->check(CLI::IsMember({"documents", "overlaps", "chat", "short", "mix"}))
      ->capture_default_str();
  command.add_option("--mix", flags.mix, "Weights of a mix")->delimiter(',')->capture_default_str();
  const auto add = [&](const char* name, std::int32_t& value, const char* help) {
    command.add_option(name, value, help)->check(CLI::Range(1, 1'000'000))->capture_default_str();
  };
  add("--documents", w.documents, "Documents that are asked about at the same time");
  add("--document-tokens", w.document_tokens, "Length of a document");
  add("--questions", w.questions, "Questions on a document, until another takes its place");
  add("--question-tokens", w.question_tokens, "Length of a question");
  command
      .add_option("--leave", w.leave,
                  "Where prompts leave a document they overlap with, percent of it")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  add("--conversations", w.conversations, "Conversations at the same time");
  add("--turns", w.turns, "Turns of a conversation");
  add("--opening-tokens", w.opening_tokens, "Length of a conversation's first message");
  add("--message-tokens", w.message_tokens, "Length of its other messages");
  add("--short-tokens", w.short_tokens, "Length of a short prompt");
  add("--max-tokens", flags.load.ask.max_tokens, "Length of an answer");
  command.add_option("--vocab", w.vocabulary, "Token ids are below (0: as the server says)")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  auto* text = command.add_flag("--text", flags.load.ask.text,
                                "Prompts as text, a word for each token, instead of token ids");
  command
      .add_flag("--chat-ids", flags.chat_ids,
                "Conversations as token ids, for models without a tokenizer")
      ->excludes(text);
  command.add_option("--seed", w.seed, "Of prompts and arrivals")->capture_default_str();
}

void add_run_flags(CLI::App& command, ServeBenchFlags& flags) {
  load::RunLimits& limits = flags.load.limits;
  auto* concurrency =
      command.add_option("--concurrency", limits.concurrency, "Closed loop: requests at a time")
          ->check(CLI::Range(1, 10'000))
          ->capture_default_str();
  command
      .add_option("--rate", limits.rate,
                  "Open loop: requests a second, at random times that do not wait for the server")
      ->check(CLI::Range(1e-3, 1e6))
      ->excludes(concurrency);
  command
      .add_option("--requests", limits.requests,
                  "Of a pass (0: 64, or what --duration lets through)")
      ->check(CLI::Range(std::int64_t{0}, kAnyNumber))
      ->capture_default_str();
  command
      .add_option("--duration", limits.seconds, "Seconds of a pass, after which nothing is sent")
      ->check(CLI::Range(1e-3, 1e7));
  command
      .add_option("--warm-up", flags.load.warm_up,
                  "Requests before each pass, one at a time, not measured")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--passes", flags.load.passes,
                  "Over the same requests: the first finds the cache as it is, the next ones warm")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--drop-cache", flags.drop,
                  "Empty the server's cache before the first or each pass")
      ->check(CLI::IsMember({"never", "first", "each"}))
      ->capture_default_str();
  command.add_option("--timeout", flags.timeout_seconds, "Seconds that a request may take")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  command.add_flag("--verify", flags.verify,
                   "Fail unless the same prompt gets the same answer each time");
  command.add_option("--json", flags.json, "Also write JSON to this file ('-': standard output)");
  command.add_flag("--each", flags.each, "With every request in the JSON");
  command.add_option("--html", flags.html, "Also write a page with plots to this file");
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
  add_target_flags(*command, *flags);
  add_workload_flags(*command, *flags);
  add_run_flags(*command, *flags);
  command->callback([flags, command, &action] {
    if (flags->load.url.empty() && command->count("--model") == 0) {
      throw CLI::RequiredError("--url or --model");
    }
    action = [flags] { return bench_serve(*flags); };
  });
}

}  // namespace cairn::cli
