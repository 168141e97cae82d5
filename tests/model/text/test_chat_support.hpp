// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "base/json.hpp"
#include "model/text/chat.hpp"
#include "tests/support/catch.hpp"

namespace cairn::text::testing {

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string demo_template() {
  return read_text(CAIRN_SOURCE_DIR "/model/demo/chat_template.jinja");
}

inline json::Value parse_json(const std::string& text) {
  auto value = json::parse(text);
  INFO(text);
  REQUIRE(value.ok());
  return value.take();
}

/// Segments cover the text without gaps, empty pieces or equal neighbours.
inline void check_segments(const RenderedChat& chat) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < chat.segments.size(); ++i) {
    CHECK(chat.segments[i].bytes > 0);
    if (i > 0) CHECK(chat.segments[i].from_template != chat.segments[i - 1].from_template);
    total += chat.segments[i].bytes;
  }
  CHECK(total == chat.text.size());
}

}  // namespace cairn::text::testing
