// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_serve_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "cli/files.hpp"

namespace cairn::cli {
namespace {

using load::Kind;

constexpr std::int64_t kAnyNumber = 1'000'000'000;  // of requests, where --duration ends a pass

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

/// Sizes of workloads, and who has them.
const std::map<std::string, std::vector<Kind>>& sizes() {
  static const std::map<std::string, std::vector<Kind>> list = {
      {"--documents", {Kind::documents}},
      {"--document-tokens", {Kind::documents, Kind::overlaps}},
      {"--questions", {Kind::documents}},
      {"--question-tokens", {Kind::documents, Kind::overlaps}},
      {"--leave", {Kind::overlaps}},
      {"--conversations", {Kind::chat}},
      {"--turns", {Kind::chat}},
      {"--opening-tokens", {Kind::chat}},
      {"--message-tokens", {Kind::chat}},
      {"--chat-ids", {Kind::chat}},
      {"--short-tokens", {Kind::short_prompts}}};
  return list;
}

/// Of what is given, each has a workload that looks at it.
void require_use(const ServeBenchFlags& flags) {
  const auto asked = [&](Kind kind) {
    return flags.load.workload.weights[static_cast<std::size_t>(kind)] > 0;
  };
  for (const std::string& name : flags.given) {
    const auto size = sizes().find(name);
    if (size == sizes().end() || std::any_of(size->second.begin(), size->second.end(), asked))
      continue;
    std::string kinds;
    for (const Kind kind : size->second)
      kinds += (kinds.empty() ? "" : " or ") + std::string(to_string(kind));
    std::string why = name;
    throw LoadError(why.append(" is of the workload ") + kinds + ", which is not asked for");
  }
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
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
  command.add_option("--mix", flags.mix, "Weights of a mix (--workload mix)")
      ->delimiter(',')
      ->capture_default_str();
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
  command.add_option("--seed", w.seed, "Of prompts and arrivals")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
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
  command
      .add_option("--keep-bytes", flags.memory,
                  "Memory for single requests; what is beyond is in figures, not in --each, in "
                  "--verify and in the cache without limits. A fifth is for turns that wait for "
                  "earlier ones with --rate: more fail as not sent")
      ->capture_default_str();
  auto* json = command.add_option("--json", flags.json,
                                  "Also write JSON to this file ('-': standard output)");
  command.add_flag("--each", flags.each, "With every request in the JSON")->needs(json);
  command.add_option("--html", flags.html, "Also write a page with plots to this file");
}

}  // namespace

void complete(ServeBenchFlags& flags) {
  load::LoadOptions& o = flags.load;
  while (o.url.ends_with('/')) o.url.pop_back();
  for (const double number :
       {o.limits.rate.value_or(1), o.limits.seconds.value_or(1), flags.timeout_seconds}) {
    if (std::isnan(number)) throw LoadError("--rate, --duration and --timeout want numbers");
  }
  o.workload.weights = weights_of(flags);
  require_use(flags);
  o.limits.seed = o.workload.seed;
  o.limits.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * flags.timeout_seconds));
  o.ask.chat_messages = !flags.chat_ids;
  const auto memory = parse_bytes(flags.memory);
  if (!memory || *memory == 0) throw LoadError("--keep-bytes: expected a size, as in 512MiB");
  o.memory_bytes = *memory;
  if (flags.drop == "first") o.drop = load::Drop::first;
  if (flags.drop == "each") o.drop = load::Drop::each;
  if (o.limits.requests == 0) o.limits.requests = o.limits.seconds ? kAnyNumber : 64;
  if (!flags.html.empty()) check_writable(flags.html);  // rather now than after the work
  if (!flags.json.empty() && flags.json != "-") check_writable(flags.json);
}

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
  const auto asked = [&](Kind kind) { return w.weights[static_cast<std::size_t>(kind)] > 0; };
  const bool documents = asked(Kind::documents), overlaps = asked(Kind::overlaps);
  if (documents) {
    add("documents", w.documents);
    add("questions", w.questions);
  }
  if (documents || overlaps) {
    add("document-tokens", w.document_tokens);
    add("question-tokens", w.question_tokens);
  }
  if (asked(Kind::chat)) {
    add("conversations", w.conversations);
    add("turns", w.turns);
    add("opening-tokens", w.opening_tokens);
    add("message-tokens", w.message_tokens);
  }
  if (asked(Kind::short_prompts)) add("short-tokens", w.short_tokens);
  add("max-tokens", o.ask.max_tokens);
  std::string limits;
  if (o.limits.requests < kAnyNumber)
    limits = "requests " + std::to_string(o.limits.requests) + ", ";
  if (o.limits.seconds) limits += "seconds " + number(*o.limits.seconds) + ", ";
  limits +=
      "timeout " + number(flags.timeout_seconds) + " s, keep-bytes " + format_bytes(o.memory_bytes);
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

void add_serve_bench_flags(CLI::App& command, ServeBenchFlags& flags) {
  add_target_flags(command, flags);
  add_workload_flags(command, flags);
  add_run_flags(command, flags);
}

}  // namespace cairn::cli
