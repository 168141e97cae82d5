// SPDX-License-Identifier: Apache-2.0
// One GET or POST, for commands that look at a running server.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace cairn::http {

struct FetchOptions {
  std::string api_key;              // sent as a bearer token; "": none
  std::optional<std::string> post;  // a body of JSON to POST; unset: GET
  std::chrono::milliseconds timeout{10'000};
  std::uint64_t max_body_bytes = 1U << 30;
};

/// The body behind "http://host[:port]/path". Any status but 200 is an error that shows the status
/// and the start of the body; https and redirects are not spoken. Blocks; thread-safe.
Result<std::string> fetch(const std::string& url, const FetchOptions& options = {});

}  // namespace cairn::http
