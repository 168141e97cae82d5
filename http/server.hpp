// SPDX-License-Identifier: Apache-2.0
// An OpenAI-compatible server in front of an engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"
#include "metrics/metrics.hpp"

namespace cairn::http {

/// Every limit has a default; limits() lists them for the operator.
struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one, see Server::port
  int io_threads = 1;
  int text_threads = 2;                    // parse bodies, tokenize
  std::vector<std::string> model_aliases;  // accepted beside the served name
  std::vector<std::string> api_keys;       // empty: no key is asked for
  std::string admin_key;                   // "": no admin endpoints
  std::string cors_origin;                 // "": no CORS headers
  std::string version = "0.1.0";           // shown on the status page
  std::uint64_t max_body_bytes = 16U << 20;
  std::uint64_t max_bodies_bytes = 256U << 20;  // all bodies being received together
  std::uint32_t max_header_bytes = 64U << 10;
  std::int32_t max_connections = 1024;
  std::uint64_t max_unsent_bytes = 1U << 20;          // of one stream: a slower reader is cancelled
  std::chrono::milliseconds idle_timeout{75'000};     // between requests of a connection
  std::chrono::milliseconds request_timeout{60'000};  // from a request's first byte to its last
  std::chrono::milliseconds write_timeout{30'000};    // one write that makes no end
};

std::vector<std::pair<std::string, std::string>> limits_of(const ServerOptions& options);

/// What keys and an engine's EngineOptions::cache_scope do not have in common, as a sentence.
Status check_keys(const ServerOptions& options, std::string_view cache_scope);

/// Listens, answers, drains. Methods are thread-safe except construction and destruction;
/// destroying stops at once. Nothing a client sends ends the process; no exception leaves it.
class Server {
 public:
  Server(std::shared_ptr<Engine> engine, std::shared_ptr<Metrics> metrics, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Binds the port and starts the threads. The error names address and reason, or is
  /// check_keys's.
  Status start();
  /// The port that is listened on; 0 before start.
  std::uint16_t port() const;
  std::int64_t connections() const;

  /// No new connections and requests; idle connections close, running answers go on.
  void begin_drain();
  /// begin_drain, then waits up to `drain` for answers to end, closes what is left and joins the
  /// threads.
  void stop(std::chrono::milliseconds drain);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::http
