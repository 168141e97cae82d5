// SPDX-License-Identifier: Apache-2.0
// A client that sends exactly the bytes it is given. No HTTP library, so that nothing is put right
// on the way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace cairn::testing {

struct RawResponse {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::vector<std::string> events() const;  // payloads of "data: " lines
  json::Value json() const;                 // fails the test when it is none
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False when the server has closed.
  bool send(std::string_view bytes);
  /// Reads one response; the rest stays for the next call. `no_body` for HEAD.
  RawResponse read(bool no_body = false);
  /// Reads until something that contains `text` was received; false at the end or after 5 s.
  bool wait_for(std::string_view text);
  /// True when the server has closed; reads and drops what it still sends.
  bool closed_by_server();
  void close_sending();
  /// Closes with a reset, so that nothing lingers.
  void reset();
  void close();

 private:
  bool fill();
  int socket_ = -1;
  std::string received_;
};

/// "POST /path" with a JSON body.
std::string post(std::string_view path, std::string_view body, std::string_view headers = "");
std::string get(std::string_view path, std::string_view headers = "");

/// A value deep in a document: "choices.0.text". Fails the test when it is not there.
const json::Value& at(const json::Value& root, const std::string& path);

}  // namespace cairn::testing
