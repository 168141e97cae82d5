// SPDX-License-Identifier: Apache-2.0
// Splits template source into tokens, with trim_blocks and lstrip_blocks as chat templates are
// written for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text::jinja {

enum class TokenKind : std::uint8_t {
  data,         // text outside of tags
  print_begin,  // {{
  print_end,
  block_begin,  // {%
  block_end,
  name,
  string,  // value unescaped
  integer,
  real,
  op,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;
  int line = 0;
};

/// Comments and raw blocks are resolved here. Throws TemplateError with the line.
std::vector<Token> tokenize(std::string_view source);

}  // namespace cairn::text::jinja
