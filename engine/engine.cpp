// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

namespace cairn {

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::abort:
      return "abort";
    case FinishReason::error:
      return "error";
  }
  return "error";
}

}  // namespace cairn
