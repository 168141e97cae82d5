// SPDX-License-Identifier: Apache-2.0
// cairn run: one answer, or a chat on the terminal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>

#include "base/check.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/engine_flags.hpp"
#include "cli/signals.hpp"

namespace cairn::cli {
namespace {

struct RunFlags {
  EngineFlags engine;
  std::optional<std::string> prompt;  // none: a chat
  std::string system;
  std::optional<std::int32_t> max_tokens;
  std::optional<float> temperature, top_p;
  std::optional<std::uint64_t> seed;
  bool thinking = false, no_thinking = false, raw = false, quiet = false;
};

// Writes an answer to stdout as it comes and waits for its end. Ctrl-C ends the answer, twice the
// program.
class Terminal {
 public:
  explicit Terminal(Engine& engine) : engine_(engine) {}

  void interrupt() {
    const std::lock_guard lock(mutex_);
    if (!running_ || cancelled_) _exit(130);
    cancelled_ = true;
    if (id_ != 0) engine_.cancel(id_);
  }

  // The answer's text; nothing when it failed.
  std::optional<std::string> ask(GenerateRequest request, bool quiet) {
    {
      const std::lock_guard lock(mutex_);
      running_ = true;
      cancelled_ = ended_ = false;
      id_ = 0;
      text_.clear();
      error_.reset();
    }
    const auto id = engine_.submit(std::move(request), [this](Event e) { on_event(std::move(e)); });
    std::unique_lock lock(mutex_);
    if (!id) {
      running_ = false;
      complain(id.error().message);
      return std::nullopt;
    }
    id_ = *id;
    if (cancelled_) engine_.cancel(id_);
    changed_.wait(lock, [this] { return ended_; });
    running_ = false;
    if (!text_.empty() && text_.back() != '\n') std::printf("\n");
    std::fflush(stdout);
    if (error_ && error_->code != ErrorCode::cancelled) {
      complain(error_->message);
      return std::nullopt;
    }
    if (!quiet) print_usage();
    return text_;
  }

 private:
  void on_event(Event event) {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<Delta>(&event)) {
      text_ += delta->text;
      std::fwrite(delta->text.data(), 1, delta->text.size(), stdout);
      std::fflush(stdout);
    } else if (const auto* finished = std::get_if<Finished>(&event)) {
      usage_ = finished->usage;
      ended_ = true;
    } else if (const auto* failed = std::get_if<Failed>(&event)) {
      usage_ = failed->usage;
      error_ = failed->error;
      ended_ = true;
    }
    changed_.notify_all();
  }

  void print_usage() const {
    const double rate =
        usage_.decode_seconds > 0 ? usage_.completion_tokens / usage_.decode_seconds : 0;
    std::fprintf(
        stderr,
        "[%d prompt tokens, %d cached; first token after %.2f s; %d tokens, %.1f a second; "
        "seed %llu]\n",
        usage_.prompt_tokens, usage_.cached_tokens, usage_.first_token_seconds,
        usage_.completion_tokens, rate, static_cast<unsigned long long>(usage_.seed));
  }

  Engine& engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  RequestId id_ = 0;
  bool running_ = false, cancelled_ = false, ended_ = false;
  std::string text_;
  std::optional<Error> error_;
  Usage usage_;
};

GenerateRequest request_for(const RunFlags& flags) {
  GenerateRequest request;
  request.max_tokens = flags.max_tokens;
  request.sampling.temperature = flags.temperature;
  request.sampling.top_p = flags.top_p;
  request.sampling.seed = flags.seed;
  return request;
}

// The conversation as the API's JSON.
class Conversation {
 public:
  void add(std::string_view role, std::string_view content) {
    JsonWriter json;
    json.begin_object().key("role").string(role).key("content").string(content).end_object();
    messages_ += (messages_.empty() ? "" : ",") + json.take();
  }
  ChatPrompt prompt(const RunFlags& flags) const {
    ChatPrompt prompt;
    prompt.messages_json = "[" + messages_ + "]";
    if (flags.thinking) prompt.enable_thinking = true;
    if (flags.no_thinking) prompt.enable_thinking = false;
    return prompt;
  }

 private:
  std::string messages_;
};

int chat(Terminal& terminal, const RunFlags& flags) {
  Conversation conversation;
  if (!flags.system.empty()) conversation.add("system", flags.system);
  const bool person = isatty(STDIN_FILENO) != 0;
  if (person)
    std::fprintf(
        stderr, "Ctrl-C stops an answer and, at the prompt, the program; so does an empty line.\n");
  for (std::string line;;) {
    if (person) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line) || line.empty()) return 0;
    Conversation attempt = conversation;
    attempt.add("user", line);
    GenerateRequest request = request_for(flags);
    request.prompt = attempt.prompt(flags);
    const auto answer = terminal.ask(std::move(request), flags.quiet);
    if (!answer && !person) return 1;
    if (!answer) continue;
    conversation = attempt;
    conversation.add("assistant", *answer);
  }
}

int run(const RunFlags& flags) {
  std::mutex mutex;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Terminal> terminal;
  const SignalWatcher watcher([&](int signal, int) {
    const std::lock_guard lock(mutex);
    if (!terminal || signal != SIGINT) _exit(130);
    terminal->interrupt();
  });
  engine = make_engine(engine_options(flags.engine));
  {
    const std::lock_guard lock(mutex);
    terminal = std::make_unique<Terminal>(*engine);
  }
  if (!flags.prompt) return chat(*terminal, flags);
  GenerateRequest request = request_for(flags);
  if (flags.raw) {
    request.prompt = TextPrompt{*flags.prompt, true};
  } else {
    Conversation conversation;
    if (!flags.system.empty()) conversation.add("system", flags.system);
    conversation.add("user", *flags.prompt);
    request.prompt = conversation.prompt(flags);
  }
  return terminal->ask(std::move(request), flags.quiet) ? 0 : 1;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "Answer one prompt, or chat on the terminal");
  command->footer(
      "Examples:\n"
      "  cairn run --model demo                                   chat; also reads lines from a "
      "pipe\n"
      "  cairn run --model demo --prompt 'Hello' --seed 1\n"
      "  cairn run --model ~/models/Qwen3.5-0.8B --raw --prompt 'Once upon a time' --max-tokens "
      "50");
  add_engine_flags(*command, flags->engine);
  auto* prompt =
      command->add_option("--prompt", flags->prompt, "Answer this and end (default: chat)");
  auto* system = command->add_option("--system", flags->system, "System message");
  command->add_option("-n,--max-tokens", flags->max_tokens,
                      "Length of an answer (default: what fits)");
  command->add_option("--temperature", flags->temperature, "0: always the likeliest token");
  command->add_option("--top-p", flags->top_p, "Only the likeliest tokens that sum to this");
  command->add_option("--seed", flags->seed, "Repeats an answer (default: random)");
  auto* thinking = command->add_flag("--thinking", flags->thinking, "Let the model think first");
  auto* no_thinking =
      command->add_flag("--no-thinking", flags->no_thinking, "Keep it from thinking")
          ->excludes(thinking);
  auto* raw = command->add_flag("--raw", flags->raw,
                                "Continue --prompt as text, without the chat template");
  raw->needs(prompt);
  for (CLI::Option* of_template : {system, thinking, no_thinking}) raw->excludes(of_template);
  command->add_flag("-q,--quiet", flags->quiet, "No line of figures after the answer");
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace cairn::cli
