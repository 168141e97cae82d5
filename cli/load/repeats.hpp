// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "cli/load/record.hpp"

namespace cairn::load {

/// Compares answers with the first one to the same request. One owner.
class Repeats {
 public:
  /// Remembers the answers to so many requests; others are not compared.
  explicit Repeats(std::size_t most = std::size_t{1} << 20U) : most_(most) {}

  void add(const Record& record);
  std::int64_t compared() const { return compared_; }
  std::int64_t different() const { return different_; }  // of these
  std::int64_t forgotten() const { return forgotten_; }  // new requests beyond the most

 private:
  std::size_t most_;
  std::unordered_map<std::string, std::string> answers_;  // digests: of a request, of its answer
  std::int64_t compared_ = 0, different_ = 0, forgotten_ = 0;
};

}  // namespace cairn::load
