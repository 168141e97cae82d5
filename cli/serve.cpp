// SPDX-License-Identifier: Apache-2.0
// cairn serve: the HTTP server until a signal ends it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/engine_flags.hpp"
#include "cli/serving.hpp"
#include "cli/signals.hpp"
#include "http/server.hpp"

namespace cairn::cli {
namespace {

constexpr std::chrono::seconds kLastBytes{5};  // for answers that ended to reach their clients

struct ServeFlags {
  EngineFlags engine;
  http::ServerOptions server;
  std::string body_limit;
  std::string port_file;
  std::string api_key_file;
  int drain_seconds = 30;
};

// The first signal starts the drain; before that, while the model loads, and after that it ends the
// process.
class Shutdown {
 public:
  void on_signal() {
    const std::lock_guard lock(mutex_);
    if (!serving_ || requested_) _exit(130);
    requested_ = true;
    changed_.notify_all();
  }
  void serving() {
    const std::lock_guard lock(mutex_);
    serving_ = true;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return requested_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool serving_ = false;
  bool requested_ = false;
};

std::vector<std::string> read_keys(const std::string& path) {
  std::vector<std::string> keys;
  if (path.empty()) return keys;
  std::ifstream file(path);
  if (!file) throw LoadError(path + ": cannot be read");
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line[0] != '#') keys.push_back(line);
  }
  if (keys.empty()) throw LoadError(path + ": expected at least one key, one a line");
  return keys;
}

// Whole or not at all: who waits for the file never reads half a number.
void write_port_file(const std::string& path, std::uint16_t port) {
  if (path.empty()) return;
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << port << "\n";
    if (!file.flush()) throw LoadError(path + ": cannot be written");
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    throw LoadError(path + ": cannot be written");
}

void print_start(const EngineInfo& info, const http::ServerOptions& server, std::uint16_t port) {
  std::printf("model    %s (%s)\n", info.model_name.c_str(), info.shape.c_str());
  const std::string threads =
      info.threads > 0 ? ", " + std::to_string(info.threads) + " threads" : "";
  std::printf("device   %s, %s%s, weights %s, KV %s, activations %s, GEMM %s\n",
              info.device.c_str(), info.isa.c_str(), threads.c_str(), info.weights.c_str(),
              info.kv.c_str(), info.activations.c_str(), info.gemm.c_str());
  std::printf(
      "cache    %s, policy %s, scope %s: %llu tokens and no state, or %llu states and no "
      "token\n",
      format_bytes(info.cache_bytes).c_str(), info.policy.c_str(), info.cache_scope.c_str(),
      static_cast<unsigned long long>(info.cache_bytes /
                                      std::max<std::uint64_t>(info.kv_bytes_per_token, 1)),
      static_cast<unsigned long long>(info.cache_bytes /
                                      std::max<std::uint64_t>(info.state_bytes, 1)));
  std::printf("limits   ");
  const char* comma = "";
  for (const auto& list : {info.limits, http::limits_of(server)})
    for (const auto& [name, value] : list) {
      std::printf("%s%s %s", comma, name.c_str(), value.c_str());
      comma = ", ";
    }
  std::printf("\nlistening on http://%s:%u\n", server.address.c_str(), port);
  std::fflush(stdout);
}

int drain(Engine& engine, http::Server& server, int seconds) {
  log(LogLevel::info, "shutting down; a second signal ends at once");
  server.begin_drain();
  const auto left = engine.close(std::chrono::seconds(seconds));
  for (const auto& what : left) log(LogLevel::warning, "did not stop in time: " + what);
  server.stop(kLastBytes);
  log(LogLevel::info, "stopped");
  return 0;
}

int serve(const ServeFlags& flags) {
  auto shutdown = std::make_shared<Shutdown>();
  const SignalWatcher watcher([shutdown](int, int) { shutdown->on_signal(); });
  http::ServerOptions server_options = flags.server;
  server_options.version = kVersion;
  server_options.api_keys = read_keys(flags.api_key_file);
  if (const auto status = http::check_keys(server_options, flags.engine.options.cache_scope);
      !status)
    throw LoadError(status.error().message + " (--cache-scope, --api-key-file, --admin-key)");
  if (!flags.body_limit.empty()) {
    const std::uint64_t bytes = bytes_of("--body-limit", flags.body_limit);
    server_options.max_body_bytes = bytes;
    server_options.max_bodies_bytes = std::max(server_options.max_bodies_bytes, 2 * bytes);
  }
  const Serving serving = start_serving(flags.engine, server_options);
  shutdown->serving();
  print_start(serving.engine->info(), server_options, serving.server->port());
  write_port_file(flags.port_file, serving.server->port());
  shutdown->wait();
  return drain(*serving.engine, *serving.server, flags.drain_seconds);
}

void add_flags(CLI::App& command, ServeFlags& flags) {
  add_engine_flags(command, flags.engine);
  command.add_option("--host", flags.server.address, "Address to listen on")->capture_default_str();
  command.add_option("-p,--port", flags.server.port, "Port to listen on (0: any free one)")
      ->capture_default_str();
  command.add_option("--port-file", flags.port_file, "Write the port here once requests are taken");
  command.add_option("--served-name", flags.engine.options.served_name,
                     "The model's name in /v1/models (default: the directory's)");
  command.add_option("--alias", flags.server.model_aliases, "Further names to accept (repeatable)");
  command.add_option("--api-key-file", flags.api_key_file, "Ask for one of these keys, one a line");
  command
      .add_option("--cache-scope", flags.engine.options.cache_scope,
                  "Who shares cached prompts: global (all clients) or key (those with the same API "
                  "key)")
      ->capture_default_str();
  command
      .add_option("--admin-key", flags.server.admin_key,
                  "Key for POST /admin/cache/drop (default: there is no such endpoint)")
      ->envname("CAIRN_ADMIN_KEY");
  command.add_option("--cors-origin", flags.server.cors_origin,
                     "Let pages of this origin use the API ('*': any)");
  command
      .add_option("--queue-limit", flags.engine.options.queue_limit,
                  "Requests that may wait; more get a 429")
      ->capture_default_str();
  command.add_option("--body-limit", flags.body_limit, "Largest request body (default: 16MiB)");
  command
      .add_option("--max-connections", flags.server.max_connections, "Connections at the same time")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--io-threads", flags.server.io_threads, "Threads of the HTTP server")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command
      .add_option("--drain-seconds", flags.drain_seconds,
                  "How long running answers may take to end after SIGTERM")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand("serve", "Serve a model over the OpenAI API");
  command->footer(
      "Examples:\n"
      "  cairn serve --model demo --port 8080\n"
      "  cairn serve --model ~/models/Qwen3.5-0.8B --cache-bytes 4GiB --host 0.0.0.0 "
      "--api-key-file keys.txt\n"
      "  cairn serve --model ~/models/Qwen3.5-0.8B --device cuda:0\n"
      "Then: curl localhost:8080/v1/chat/completions -d "
      "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n"
      "GET / is a status page, GET /metrics is for Prometheus. SIGTERM drains and exits 0.");
  add_flags(*command, *flags);
  command->callback([flags, &action] { action = [flags] { return serve(*flags); }; });
}

}  // namespace cairn::cli
