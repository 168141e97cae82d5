// SPDX-License-Identifier: Apache-2.0
// Between files and a device: records whose bytes lie in an arena pass through host memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "engine/cache/disk_file.hpp"
#include "model/net/backend.hpp"

namespace cairn::engine {

/// Memory of one batch of records, reused. Pieces that lie in no arena stay where they are. One
/// thread. Errors: unavailable (the device failed).
class DiskStage {
 public:
  /// Null: everything lies in the host's memory.
  explicit DiskStage(std::shared_ptr<model::Arena> arena = nullptr) : arena_(std::move(arena)) {}

  /// How many records of that size make a batch, at most `most`.
  std::size_t batch(std::uint64_t record_bytes, std::size_t most) const;

  /// The same bytes in the host's memory, until the next call.
  Result<std::span<const DiskRecord>> fetch(std::span<const DiskRecord> records);
  /// Where to read to instead, until the next call; deliver() brings it to the device.
  std::span<const DiskRecordSink> land(std::span<const DiskRecordSink> sinks);
  Status deliver();

 private:
  struct Move {
    std::byte* device = nullptr;
    std::size_t at = 0, bytes = 0;  // in memory_
  };
  bool is_on_device(const std::byte* p) const;
  void reserve(std::size_t bytes);
  std::span<std::byte> bytes_of(const Move& m) const { return {memory_.get() + m.at, m.bytes}; }
  template <class Record>
  void plan(std::span<const Record> records, std::vector<Record>& staged);

  std::shared_ptr<model::Arena> arena_;
  std::vector<Move> moves_;
  std::shared_ptr<std::byte> memory_;  // [size_]
  std::size_t size_ = 0;
  std::vector<DiskRecord> records_;
  std::vector<DiskRecordSink> sinks_;
};

}  // namespace cairn::engine
