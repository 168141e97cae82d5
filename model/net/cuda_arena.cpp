// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_arena.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace cairn::model {
namespace {

// At 64 GB/s a copy of it takes 60 us, several times what starting it does.
constexpr std::size_t kAreaBytes = std::size_t{4} << 20;

}  // namespace

CudaArena::CudaArena(int device, std::size_t bytes, std::shared_ptr<LastWork> work)
    : device_(device),
      memory_(device, in_device_units(bytes), "blocks and states"),
      work_(std::move(work)),
      areas_(device, std::min(kAreaBytes, in_device_units(bytes)), "copies of blocks and states"),
      stream_(device) {}

void CudaArena::follow(std::shared_ptr<LastWork> work) {
  const std::scoped_lock lock(mutex_);
  work_ = std::move(work);
}

void CudaArena::begin(const std::byte* at, std::size_t bytes) {
  check(at >= data() && bytes <= size() && static_cast<std::size_t>(at - data()) <= size() - bytes,
        "arena: a copy leaves the arena");
  work_->hold_back(stream_);
}

void CudaArena::read(const std::byte* from, std::span<std::byte> to) {
  const std::scoped_lock lock(mutex_);
  begin(from, to.size());
  StagingAreas::Area* before = nullptr;
  std::span<std::byte> before_to;
  const auto empty = [&] {
    if (before == nullptr) return;
    before->copied.wait();
    std::memcpy(before_to.data(), before->memory.data(), before_to.size());
  };
  for (std::size_t at = 0; at < to.size(); at += areas_.size()) {
    const std::span<std::byte> part = to.subspan(at, std::min(areas_.size(), to.size() - at));
    StagingAreas::Area& area = areas_.next();
    stream_.copy_to_host(area.memory.data(), from + at, part.size());
    area.copied.record(stream_.get());
    empty();
    before = &area;
    before_to = part;
  }
  empty();
}

void CudaArena::write(std::span<const std::byte> from, std::byte* to) {
  const std::scoped_lock lock(mutex_);
  begin(to, from.size());
  for (std::size_t at = 0; at < from.size(); at += areas_.size()) {
    const auto part = from.subspan(at, std::min(areas_.size(), from.size() - at));
    StagingAreas::Area& area = areas_.next();
    std::memcpy(area.memory.data(), part.data(), part.size());
    stream_.copy_to_device(to + at, area.memory.data(), part.size());
    area.copied.record(stream_.get());
  }
  stream_.finish();
}

}  // namespace cairn::model
