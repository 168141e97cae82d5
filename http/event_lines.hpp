// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::http {

/// Payloads of a stream of server-sent events, however it is cut into pieces: what stands behind
/// "data:" in each whole line. Other fields are not looked at. One owner.
class EventLines {
 public:
  /// The payloads that `piece` completes.
  std::vector<std::string> take(std::string_view piece);

 private:
  std::string rest_;  // of a line that has not ended
};

}  // namespace cairn::http
