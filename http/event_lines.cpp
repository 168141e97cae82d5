// SPDX-License-Identifier: Apache-2.0
#include "http/event_lines.hpp"

namespace cairn::http {

std::vector<std::string> EventLines::take(std::string_view piece) {
  constexpr std::string_view kField = "data:";
  std::vector<std::string> out;
  const std::size_t seen = rest_.size();  // without an end of line
  rest_ += piece;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n', seen); end != std::string::npos;
       end = rest_.find('\n', begin)) {
    std::string_view line = std::string_view(rest_).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with(kField)) continue;
    line.remove_prefix(kField.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    out.emplace_back(line);
  }
  rest_.erase(0, begin);
  return out;
}

}  // namespace cairn::http
