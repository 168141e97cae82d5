// SPDX-License-Identifier: Apache-2.0
// Block-hash traces: an id stands for one block of tokens and for all blocks before it.
#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>

#include "engine/simulate/trace_formats.hpp"

namespace cairn::engine {
namespace {

/// A block's tokens are `block_size` consecutive ids that no other block has; its number among the
/// file's distinct blocks says which.
class HashTrace final : public Trace {
 public:
  HashTrace(std::vector<TraceRequest> requests, std::vector<std::vector<std::int32_t>> blocks,
            std::int32_t block_size)
      : Trace(std::move(requests)), blocks_(std::move(blocks)), block_size_(block_size) {}

  Tokens tokens(std::size_t i) const override {
    const std::int32_t length = (*this)[i].length;
    auto out = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(length));
    auto at = out->begin();
    for (const std::int32_t block : blocks_[i]) {
      const auto end = at + std::min<std::ptrdiff_t>(block_size_, out->end() - at);
      std::iota(at, end, block * block_size_);
      at = end;
    }
    return out;
  }

 private:
  std::vector<std::vector<std::int32_t>> blocks_;  // by request
  std::int32_t block_size_;
};

class BlockNumbers {
 public:
  BlockNumbers(const TraceLines& lines, std::int64_t block_size)
      : lines_(lines), limit_(kMaxTraceIds / block_size) {}

  /// By the digits: hashes of 64 bits and more are as good as small numbers.
  std::int32_t of_hash(const std::string& digits) {
    const auto [entry, fresh] = numbers_.try_emplace(digits, 0);
    if (fresh) entry->second = next();
    return entry->second;
  }
  /// For tokens that no hash covers.
  std::int32_t next() {
    if (used_ == limit_) {
      lines_.fail("hash_ids", "at most " + std::to_string(limit_) + " distinct blocks");
    }
    return static_cast<std::int32_t>(used_++);
  }

 private:
  const TraceLines& lines_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::int64_t used_ = 0;
  std::int64_t limit_;
};

const json::Value& required(const TraceLines& lines, const json::Value& line, const char* field) {
  const json::Value* v = line.find(field);
  if (!v) lines.fail(field, "a value, but it is missing");
  return *v;
}

std::vector<std::int32_t> read_blocks(const TraceLines& lines, const json::Value& line,
                                      std::int64_t length, std::int64_t block_size,
                                      BlockNumbers& numbers) {
  const json::Value& ids = required(lines, line, "hash_ids");
  const std::int64_t whole = length / block_size;
  const std::int64_t all = (length + block_size - 1) / block_size;
  const auto count = std::ssize(ids.items());
  if (!ids.is(json::Kind::array) || (count != all && count != whole)) {
    lines.fail("hash_ids", "an array of " + std::to_string(all) + " ids for " +
                               std::to_string(length) + " tokens in blocks of " +
                               std::to_string(block_size) + ", got " + std::to_string(count));
  }
  std::vector<std::int32_t> blocks;
  blocks.reserve(static_cast<std::size_t>(all));
  for (const json::Value& id : ids.items()) {
    if (!id.is_integer() || id.text().starts_with('-')) {
      lines.fail("hash_ids", "integers of at least 0");
    }
    blocks.push_back(numbers.of_hash(id.text()));
  }
  if (count < all) blocks.push_back(numbers.next());
  return blocks;
}

}  // namespace

std::unique_ptr<const Trace> read_hash_lines(TraceLines& lines, std::string first,
                                             std::int64_t block_size) {
  std::vector<TraceRequest> requests;
  std::vector<std::vector<std::int32_t>> blocks;
  BlockNumbers numbers(lines, block_size);
  std::string line = std::move(first);
  do {
    const json::Value value = parse_line(lines, line);
    const std::int64_t length = integer_field(
        lines, "input_length", required(lines, value, "input_length"), 1, kMaxTracePrompt);
    blocks.push_back(read_blocks(lines, value, length, block_size, numbers));
    TraceRequest& request = requests.emplace_back();
    request.length = static_cast<std::int32_t>(length);
    read_optional_fields(lines, value, request);
  } while (lines.next(line));
  return std::make_unique<HashTrace>(std::move(requests), std::move(blocks),
                                     static_cast<std::int32_t>(block_size));
}

}  // namespace cairn::engine
