// SPDX-License-Identifier: Apache-2.0
#include "cli/load/needed.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn::load {

void count_needed(std::span<Record> records, ExactCache& cache) {
  struct Moment {
    double at = 0;
    bool sent = false;
    Record* record = nullptr;
  };
  std::vector<Moment> moments;
  for (Record& record : records) {
    if (!record.answered() || record.prompt.empty()) continue;
    moments.push_back({record.sent, true, &record});
    moments.push_back({record.ended, false, &record});
  }
  std::stable_sort(moments.begin(), moments.end(),
                   [](const Moment& a, const Moment& b) { return a.at < b.at; });
  for (const Moment& moment : moments) {
    Record& record = *moment.record;
    if (moment.sent) {
      record.needed = cache.needed(record.prompt);
      cache.add(record.prompt);
    } else if (record.answer.size() > 1) {
      Tokens all = record.prompt;
      all.insert(all.end(), record.answer.begin(), record.answer.end() - 1);
      cache.add(std::move(all));
    }
  }
}

}  // namespace cairn::load
