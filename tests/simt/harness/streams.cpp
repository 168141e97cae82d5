// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/harness/streams.hpp"

#include <algorithm>
#include <utility>

#include "tests/simt/harness/harness.hpp"

namespace cairn::simt {
namespace {

std::vector<CUstream_st*>& streams() {
  static std::vector<CUstream_st*> all;
  return all;
}

void reach(Point& point) {
  point.stream = nullptr;
  point.when = std::chrono::steady_clock::now();
}

void step_until(const Point& point);

void step(CUstream_st& stream) {
  Item& item = stream.items.front();  // stays until it is done: discard_everything finds it
  if (item.after != nullptr) step_until(*item.after);
  if (item.work) item.work();
  if (item.reached != nullptr) reach(*item.reached);
  stream.items.pop_front();
}

// Ends: a point that is waited for was queued before the item that waits.
void step_until(const Point& point) {
  while (point.stream != nullptr) step(*point.stream);
}

bool can_step(const CUstream_st& stream) {
  if (stream.items.empty()) return false;
  const auto& after = stream.items.front().after;
  return after == nullptr || after->stream == nullptr;
}

void step_others(const CUstream_st* awaited) {
  for (bool stepped = true; stepped;) {
    stepped = false;
    for (CUstream_st* other : streams()) {
      if (other == awaited || !can_step(*other)) continue;
      step(*other);
      stepped = true;
    }
  }
}

template <class Work>
void guarded(const Work& work) {
  try {
    work();
  } catch (...) {
    discard_everything();
    throw;
  }
}

}  // namespace

void push(CUstream_st& stream, Item item) {
  if (stream.capture == nullptr) {
    stream.items.push_back(std::move(item));
    return;
  }
  Capture& capture = *stream.capture;
  if (capture.thread != std::this_thread::get_id()) {
    throw Fault("a thread queues work on a stream that another captures");
  }
  if (item.work) capture.work.push_back(std::move(item.work));
}

void run_until(Point& point, Order order) {
  guarded([&] {
    if (order == Order::others_first) step_others(point.stream);
    step_until(point);
  });
}

void run_all(CUstream_st& stream, Order order) {
  guarded([&] {
    if (order == Order::others_first) step_others(&stream);
    while (!stream.items.empty()) step(stream);
  });
}

void run_everything() {
  guarded([] {
    for (CUstream_st* stream : streams()) {
      while (!stream->items.empty()) step(*stream);
    }
  });
}

void discard_everything() {
  for (CUstream_st* stream : streams()) {
    for (Item& item : stream->items) {
      if (item.reached != nullptr) reach(*item.reached);
    }
    stream->items.clear();
  }
}

void add_stream(CUstream_st& stream) { streams().push_back(&stream); }

void remove_stream(CUstream_st& stream) {
  auto& all = streams();
  all.erase(std::find(all.begin(), all.end(), &stream));
}

}  // namespace cairn::simt
