// SPDX-License-Identifier: Apache-2.0
#include "engine/request/stop_matcher.hpp"

#include <algorithm>

namespace cairn::engine {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    Pattern pattern{stop, std::vector<std::uint32_t>(stop.size(), 0), 0};
    for (std::uint32_t i = 1, border = 0; i < stop.size(); ++i) {
      while (border > 0 && stop[i] != stop[border]) border = pattern.fallback[border - 1];
      if (stop[i] == stop[border]) ++border;
      pattern.fallback[i] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Pattern::step(char c) {
  while (matched > 0 && text[matched] != c) matched = fallback[matched - 1];
  if (text[matched] == c) ++matched;
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  if (patterns_.empty()) return std::string(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t complete = 0;
    for (Pattern& pattern : patterns_) {
      pattern.step(text[i]);
      if (pattern.matched == pattern.text.size())
        complete = std::max(complete, pattern.text.size());
    }
    if (complete == 0) continue;
    stopped_ = true;
    std::string shown = std::move(held_);
    held_.clear();
    shown.append(text.substr(0, i + 1));
    shown.resize(shown.size() - complete);
    return shown;
  }
  std::size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max<std::size_t>(keep, pattern.matched);
  held_.append(text);
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::finish() {
  std::string rest = std::move(held_);
  held_.clear();
  return rest;
}

}  // namespace cairn::engine
