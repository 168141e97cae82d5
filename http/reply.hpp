// SPDX-License-Identifier: Apache-2.0
// Responses as text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace cairn::http {

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

Reply json_reply(std::string body);
/// An OpenAI error object with the status that belongs to the code; 429 and 503 say when to try
/// again.
Reply error_reply(const Error& error);
Reply error_reply(int status, std::string_view message, std::string_view code);
/// 401, and how to authenticate. `which`: "API".
Reply missing_key(std::string_view which);
/// 500 for what is our fault.
Reply internal_error();

/// What the connection adds to a reply.
struct Framing {
  bool keep_alive = true;
  bool http_1_0 = false;
  bool head = false;  // headers only
  std::string cors_origin;
};

/// Status line, headers and body.
std::string to_text(const Reply& reply, const Framing& framing);

/// The head of an event stream: chunked, or until the connection closes for HTTP/1.0.
std::string stream_head(const Framing& framing);
/// Events as they go over the wire: "data: ..." lines, as one chunk unless HTTP/1.0. `last` ends
/// the stream.
std::string stream_part(const std::vector<std::string>& events, bool last, const Framing& framing);

}  // namespace cairn::http
