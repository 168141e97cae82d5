// SPDX-License-Identifier: Apache-2.0
#include "cli/load/kept.hpp"

#include <numeric>

namespace cairn::load {
namespace {

std::uint64_t bytes_of_all(const std::vector<Record>& records) {
  return std::accumulate(
      records.begin(), records.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Record& record) { return sum + bytes_of(record); });
}

void sort_by_sending(std::vector<Record>& records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.sent < b.sent; });
}

}  // namespace

std::uint64_t bytes_of(const Record& r) {
  const std::size_t tokens =
      r.planned.tokens.capacity() + r.prompt.capacity() + r.answer.capacity();
  return sizeof(Record) + sizeof(std::int32_t) * tokens + sizeof(double) * r.gaps.capacity() +
         r.target.capacity() + r.question.capacity() + r.digest.capacity() + r.text.capacity() +
         r.error.capacity() + r.message.capacity();
}

void strip(Record& record) {
  // Not {}, which a vector takes for a list to copy into the memory that it has.
  for (Tokens* tokens : {&record.planned.tokens, &record.prompt, &record.answer}) {
    *tokens = Tokens();
  }
  for (std::string* text : {&record.question, &record.text, &record.digest, &record.target}) {
    *text = std::string();
  }
  record.gaps = std::vector<double>();
}

bool Kept::shrink(std::vector<Record>& records, std::uint64_t most_bytes) {
  bool every = true;
  while (records.size() > 1 && bytes_of_all(records) > most_bytes) {
    sort_by_sending(records);
    halve(records, [](const Record& a, const Record& b) { return a.to_first() < b.to_first(); });
    records.shrink_to_fit();
    every = false;
  }
  return every;
}

void Kept::add(Record record) {
  record.gaps = std::vector<double>();
  if (!whole_) strip(record);
  bytes_ += bytes_of(record);
  records_.push_back(std::move(record));
  if (bytes_ <= most_bytes_) return;
  if (whole_) std::for_each(records_.begin(), records_.end(), strip);
  whole_ = false;
  every_ = shrink(records_, most_bytes_) && every_;
  bytes_ = bytes_of_all(records_);
}

std::vector<Record> Kept::take() {
  sort_by_sending(records_);
  return std::move(records_);
}

}  // namespace cairn::load
