// SPDX-License-Identifier: Apache-2.0
#include "base/quote.hpp"

namespace cairn {

std::string shortened(std::string_view text) {
  if (text.size() <= kShownBytes) return std::string(text);
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string quoted(std::string_view text) { return "'" + shortened(text) + "'"; }

}  // namespace cairn
