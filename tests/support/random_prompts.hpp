// SPDX-License-Identifier: Apache-2.0
// Prompts that share prefixes in every way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/fake_prefill.hpp"

namespace cairn::tests {

/// Documents, questions, forks, edits, repeats, one-token prompts, lengths of every residue.
class RandomPrompts {
 public:
  explicit RandomPrompts(std::uint32_t seed) : rng_(seed) {}
  std::int32_t below(std::size_t n) { return static_cast<std::int32_t>(rng_() % n); }
  Tokens tokens(std::int32_t n) {
    Tokens t;
    for (std::int32_t i = 0; i < n; ++i) t.push_back(below(3));
    return t;
  }
  Tokens next() {
    Tokens t;
    switch (below(6)) {
      case 0:
        t = tokens(1 + below(3) * below(100));
        break;
      case 1:  // a document and a question
        t = document(static_cast<std::uint64_t>(below(3)), 64 + below(2) * 129) +
            tokens(1 + below(40));
        break;
      case 2:  // an exact repeat
        if (!past_.empty()) t = past();
        break;
      case 3:  // an edit
        if (!past_.empty()) {
          t = past();
          t[static_cast<std::size_t>(below(t.size()))] += 1;
        }
        break;
      case 4:  // a fork or a prefix
        if (!past_.empty()) {
          t = past();
          t.resize(static_cast<std::size_t>(1 + below(t.size())));
          if (below(2) == 0) t = t + tokens(below(64));
        }
        break;
      default:  // a continuation
        if (!past_.empty()) t = past() + tokens(1 + below(50));
    }
    if (t.empty()) t = tokens(1);
    if (t.size() > 600) t.resize(600);
    remember(t);
    return t;
  }
  void remember(const Tokens& t) {
    if (past_.size() < 60) past_.push_back(t);
    past_[static_cast<std::size_t>(below(past_.size()))] = t;
  }

 private:
  const Tokens& past() { return past_[static_cast<std::size_t>(below(past_.size()))]; }
  std::mt19937 rng_;
  std::vector<Tokens> past_;
};

}  // namespace cairn::tests
