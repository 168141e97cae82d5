// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

#include "base/check.hpp"

namespace cairn {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_request:
      return "bad_request";
    case ErrorCode::context_overflow:
      return "context_overflow";
    case ErrorCode::queue_full:
      return "queue_full";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::deadline:
      return "deadline";
    case ErrorCode::no_memory:
      return "no_memory";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

void throw_bad_result_access(const Error* error) {
  throw InvariantError(error ? "value of a failed result read: " + error->message
                             : std::string("error of a successful result read"));
}

}  // namespace cairn
