// SPDX-License-Identifier: Apache-2.0
// Whether XML-like text is well-formed, as far as generated reports need it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::testing {

/// "" when every element is closed in order, attributes are quoted and '&' begins an entity; else
/// what is wrong, with the text around it. Comments, CDATA and <style> content are not looked into.
inline std::string markup_problem(std::string_view text) {
  std::vector<std::string_view> open;
  const auto around = [&](std::size_t at) { return std::string(text.substr(at, 40)); };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&') {
      const std::size_t end = text.find(';', i);
      if (end == std::string_view::npos || end - i > 7) return "bare & at " + around(i);
    }
    if (text[i] == '>') return "bare > at " + around(i);
    if (text[i] != '<') continue;
    std::size_t end = i + 1;
    for (bool inside = false; end < text.size() && (inside || text[end] != '>'); ++end) {
      if (text[end] == '"') inside = !inside;
      if (text[end] == '<') return "< inside a tag at " + around(i);
    }
    if (end == text.size()) return "a tag without end at " + around(i);
    std::string_view tag = text.substr(i + 1, end - i - 1);
    i = end;
    const bool closing = tag.starts_with('/'), empty = tag.ends_with('/');
    if (closing) tag.remove_prefix(1);
    const std::string_view name = tag.substr(0, tag.find_first_of(" /"));
    for (std::size_t eq = tag.find('='); eq != std::string_view::npos && !closing;) {
      if (eq + 1 >= tag.size() || tag[eq + 1] != '"') return "a bare value in " + std::string(tag);
      const std::size_t stop = tag.find('"', eq + 2);
      if (stop == std::string_view::npos) return "an open quote in " + std::string(tag);
      eq = tag.find('=', stop);
    }
    if (closing) {
      if (open.empty() || open.back() != name) return "unexpected </" + std::string(name) + ">";
      open.pop_back();
    } else if (!empty) {
      open.push_back(name);
    }
    if (!closing && name == "style") i = text.find("</style>", i) - 1;
  }
  return open.empty() ? "" : "<" + std::string(open.back()) + "> is not closed";
}

}  // namespace cairn::testing
