// SPDX-License-Identifier: Apache-2.0
// Places that a client marks for the cache: `cache_control` on messages and on their text parts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "model/text/chat.hpp"

namespace cairn::engine {

/// Of one request, in messages or as positions.
inline constexpr std::size_t kMaxCacheMarks = 16;

/// What stands at a marked place while a copy of the chat is rendered to find it: characters that
/// no text of the chat has.
struct MarkSigns {
  std::string part;     // the place is right here, behind a text part
  std::string message;  // the place is where the next message starts
};
/// nullopt: the text spells every character that could serve.
std::optional<MarkSigns> unused_signs(std::string_view text);

/// How many places are marked. Errors: bad_request naming the first `cache_control` that is not
/// {"type": "ephemeral"} (a string `ttl` is ignored), and more than kMaxCacheMarks.
Result<std::size_t> count_marks(const json::Value& messages);
/// The messages with a sign at each marked place. They must have passed count_marks and
/// normalise_messages.
json::Value with_signs(const json::Value& messages, const MarkSigns& signs);

/// Byte offsets of the marked places in `plain`, ascending, by comparing with `signed_text`, the
/// same chat rendered with signs. Where the template cuts or drops what stands before a sign the
/// place is where the texts still agree.
std::vector<std::size_t> marked_bytes(const text::RenderedChat& plain, std::string_view signed_text,
                                      const MarkSigns& signs);

}  // namespace cairn::engine
