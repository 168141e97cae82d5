// SPDX-License-Identifier: Apache-2.0
#include "cli/load/repeats.hpp"

#include <string_view>
#include <utility>

#include "base/sha256.hpp"

namespace cairn::load {

void Repeats::add(const Record& record) {
  if (!record.answered()) return;
  const std::string_view ids(reinterpret_cast<const char*>(record.answer.data()),
                             record.answer.size() * sizeof(Tokens::value_type));
  std::string said =
      sha256(std::to_string(record.text.size()) + ":" + record.text + std::string(ids));
  const auto before = answers_.find(record.digest);
  if (before == answers_.end()) {
    if (answers_.size() >= most_) {
      ++forgotten_;
    } else {
      answers_.emplace(record.digest, std::move(said));
    }
    return;
  }
  ++compared_;
  different_ += before->second != said;
}

}  // namespace cairn::load
