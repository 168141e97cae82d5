// SPDX-License-Identifier: Apache-2.0
#include "model/net/cuda_arena.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

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

std::shared_ptr<std::byte> CudaArena::host_memory(std::size_t bytes) {
  auto memory =
      std::make_shared<kernels::cuda::PinnedBuffer>(device_, bytes, "copies of blocks and states");
  const std::scoped_lock lock(mutex_);
  std::erase_if(pinned_, [](const auto& other) { return other.expired(); });
  pinned_.push_back(memory);
  std::byte* const data = memory->data();
  return {std::move(memory), data};
}

bool CudaArena::is_pinned(std::span<const std::byte> host) const {
  const std::less_equal<const std::byte*> in_order;
  return std::any_of(pinned_.begin(), pinned_.end(), [&](const auto& one) {
    const auto memory = one.lock();
    return memory && in_order(memory->data(), host.data()) &&
           in_order(host.data() + host.size(), memory->data() + memory->size());
  });
}

void CudaArena::read(const std::byte* from, std::span<std::byte> to) {
  const std::scoped_lock lock(mutex_);
  begin(from, to.size());
  if (is_pinned(to)) {
    stream_.copy_to_host(to.data(), from, to.size());
    return stream_.finish();
  }
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
  if (is_pinned(from)) {
    stream_.copy_to_device(to, from.data(), from.size());
    return stream_.finish();
  }
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
