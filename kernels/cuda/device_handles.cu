// SPDX-License-Identifier: Apache-2.0
// How the handles of device.hpp move: the same with a device and in the harness.
#include <utility>

#include "kernels/cuda/device.hpp"

namespace cairn::kernels::cuda {

Event::Event(Event&& other) noexcept
    : device_(std::exchange(other.device_, {})), event_(std::exchange(other.event_, {})) {}

Event& Event::operator=(Event&& other) noexcept {
  Event taken(std::move(other));
  std::swap(device_, taken.device_);
  std::swap(event_, taken.event_);
  return *this;
}

WorkStream::WorkStream(WorkStream&& other) noexcept
    : device_(std::exchange(other.device_, {})), stream_(std::exchange(other.stream_, {})) {}

WorkStream& WorkStream::operator=(WorkStream&& other) noexcept {
  WorkStream taken(std::move(other));
  std::swap(device_, taken.device_);
  std::swap(stream_, taken.stream_);
  return *this;
}

Graph::Graph(Graph&& other) noexcept
    : graph_(std::exchange(other.graph_, {})), nodes_(std::exchange(other.nodes_, {})) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  Graph taken(std::move(other));
  std::swap(graph_, taken.graph_);
  std::swap(nodes_, taken.nodes_);
  return *this;
}

}  // namespace cairn::kernels::cuda
