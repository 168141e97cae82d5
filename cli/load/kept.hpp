// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cli/load/record.hpp"

namespace cairn::load {

/// Bytes that a record takes, about.
std::uint64_t bytes_of(const Record& record);
/// Leaves times and counts, but neither what was asked nor what was answered.
void strip(Record& record);

/// Leaves the greater one of each two neighbours: what stands out stays.
template <class Item, class Less>
void halve(std::vector<Item>& items, const Less& less) {
  std::size_t to = 0;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const bool second = i + 1 < items.size() && less(items[i], items[i + 1]);
    Item chosen = std::move(items[second ? i + 1 : i]);
    items[to++] = std::move(chosen);
  }
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(to), items.end());
}

/// The requests of a pass one by one, in memory that does not grow with their number: where they
/// take more than `most_bytes`, all lose what was asked and answered, and then every second one
/// goes, of two neighbours the one that was faster to its first token. One owner.
class Kept {
 public:
  explicit Kept(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  void add(Record record);
  bool every() const { return every_; }  // none has gone
  bool whole() const { return whole_; }  // nor lost anything
  std::size_t size() const { return records_.size(); }
  /// In the order of sending.
  std::vector<Record> take();
  /// The same of records that are stripped already; false when some had to go.
  static bool shrink(std::vector<Record>& records, std::uint64_t most_bytes);

 private:
  std::uint64_t most_bytes_, bytes_ = 0;
  std::vector<Record> records_;
  bool every_ = true, whole_ = true;
};

}  // namespace cairn::load
