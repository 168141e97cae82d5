// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_stage.hpp"

#include <algorithm>
#include <functional>

#include "base/check.hpp"
#include "base/log.hpp"

namespace cairn::engine {
namespace {

constexpr std::uint64_t kStageBytes = 32 << 20U;  // of a batch, unless one record has more

// What a device does is no fault of the disk's callers.
template <class Work>
Status guarded(const Work& work) {
  try {
    work();
    return ok_status();
  } catch (const DeviceError& e) {
    return Error{ErrorCode::unavailable, std::string("the device's memory: ") + e.what(), {}};
  }
}

}  // namespace

bool DiskStage::is_on_device(const std::byte* p) const {
  const std::less<const std::byte*> below;
  return arena_ != nullptr && !below(p, arena_->data()) &&
         below(p, arena_->data() + arena_->size());
}

std::size_t DiskStage::batch(std::uint64_t record_bytes, std::size_t most) const {
  if (arena_ == nullptr) return most;
  return std::clamp<std::size_t>(kStageBytes / std::max<std::uint64_t>(record_bytes, 1), 1, most);
}

// Where the system pins no memory, copies take longer.
void DiskStage::reserve(std::size_t bytes) {
  if (bytes <= size_) return;
  memory_ = nullptr;  // first, so that old and new never stand side by side
  size_ = 0;
  try {
    memory_ = arena_->host_memory(bytes);
  } catch (const DeviceError& e) {
    log(LogLevel::warning,
        std::string("copies to disk go through memory that is not pinned: ") + e.what());
    memory_ = arena_->model::Arena::host_memory(bytes);
  }
  size_ = bytes;
}

// Blocks that lie side by side on the device move as one.
template <class Record>
void DiskStage::plan(std::span<const Record> records, std::vector<Record>& staged) {
  moves_.clear();
  std::size_t bytes = 0;
  for (const Record& record : records) {
    for (const auto& piece : record) {
      if (piece.empty() || !is_on_device(piece.data())) continue;
      auto* device = const_cast<std::byte*>(piece.data());
      if (!moves_.empty() && moves_.back().device + moves_.back().bytes == device) {
        moves_.back().bytes += piece.size();
      } else {
        moves_.push_back({device, bytes, piece.size()});
      }
      bytes += piece.size();
    }
  }
  reserve(bytes);
  std::byte* next = memory_.get();
  staged.assign(records.begin(), records.end());
  for (Record& record : staged) {
    for (auto& piece : record) {
      if (piece.empty() || !is_on_device(piece.data())) continue;
      piece = {next, piece.size()};
      next += piece.size();
    }
  }
}

Result<std::span<const DiskRecord>> DiskStage::fetch(std::span<const DiskRecord> records) {
  if (arena_ == nullptr) return records;
  plan(records, records_);
  const Status done = guarded([this] {
    for (const Move& m : moves_) arena_->read(m.device, bytes_of(m));
  });
  if (!done) return done.error();
  return std::span<const DiskRecord>(records_);
}

std::span<const DiskRecordSink> DiskStage::land(std::span<const DiskRecordSink> sinks) {
  if (arena_ == nullptr) return sinks;
  plan(sinks, sinks_);
  return sinks_;
}

Status DiskStage::deliver() {
  if (arena_ == nullptr) return ok_status();
  return guarded([this] {
    for (const Move& m : moves_) arena_->write(bytes_of(m), m.device);
  });
}

}  // namespace cairn::engine
