// SPDX-License-Identifier: Apache-2.0
// Many requests at a time to one server; of each answer what came and when. For load generators.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cairn::http {

struct ClientOptions {
  std::string api_key;  // sent as a bearer token; "": none
  std::uint64_t max_answer_bytes = 1U << 28;
};

struct ClientRequest {
  std::string target;                          // "/v1/completions"
  std::string body;                            // JSON
  std::chrono::milliseconds timeout{600'000};  // from connecting to the last byte
};

/// How an exchange ended before its answer was whole.
enum class ClientFailure : std::uint8_t {
  none,
  connect,  // nobody listens, or cannot be reached
  local,    // this machine lacks descriptors, ports or memory
  timeout,
  closed,     // the connection ended first
  malformed,  // not HTTP, or larger than what is taken
  cancelled,
};
const char* to_string(ClientFailure failure);

struct ClientAnswer {
  using Clock = std::chrono::steady_clock;
  struct Event {
    Clock::time_point at;  // read from the socket
    std::string data;      // behind "data: "
  };
  ClientFailure failure = ClientFailure::none;
  std::string message;        // what the system said of a failure
  int status = 0;             // 0: no head came
  std::vector<Event> events;  // of a text/event-stream
  std::string body;           // of anything else
  Clock::time_point ended;
};

/// Connections are kept and used again. Thread-safe; destroying cancels what runs and waits for it.
class Client {
 public:
  using Done = std::function<void(ClientAnswer)>;  // on the client's thread; must not throw

  /// Looks the host of "http://host[:port]" up; does not connect. Blocks.
  static Result<std::unique_ptr<Client>> open(const std::string& url,
                                              const ClientOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Calls `done` exactly once, whatever happens.
  void post(ClientRequest request, Done done);
  /// Ends all that run; later posts end at once. Does not wait.
  void cancel();

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::http
