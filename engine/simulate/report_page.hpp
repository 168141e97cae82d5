// SPDX-License-Identifier: Apache-2.0
// The HTML around charts and tables: one page that needs nothing else, on light and dark ground.
#pragma once

#include <string>
#include <string_view>

namespace cairn::engine {

/// Everything up to the first paragraph, the title as a heading included.
void open_page(std::string& out, std::string_view title);
void close_page(std::string& out);

/// A table's cell; `tag` is "td" or "th". The best of a row stands out.
void append_cell(std::string& out, const char* tag, std::string_view text, bool best = false);

}  // namespace cairn::engine
