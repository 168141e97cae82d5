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

void step_until(const Point& point);

void step(CUstream_st& stream) {
  Item& item = *stream.items.front();  // stays until it is done: discard_everything finds it
  if (item.after != nullptr) step_until(*item.after);
  stream.aside.run([&] {
    order_acquire(&item.token);
    if (item.after != nullptr) order_acquire(&item.after->token);
    if (item.work) {
      const UseMachine use(stream.machine);
      item.work();
    }
    if (item.reached != nullptr) reach(*item.reached);
    stream.items.front().reset();  // by the side that has read it
    order_release(&stream.done);
  });
  stream.items.pop_front();
}

// Ends: a point that is waited for was queued before the item that waits.
void step_until(const Point& point) {
  while (point.stream != nullptr) step(*point.stream);
}

bool can_step(const CUstream_st& stream) {
  if (stream.items.empty()) return false;
  const auto& after = stream.items.front()->after;
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

void reach(Point& point) {
  point.stream = nullptr;
  point.when = std::chrono::steady_clock::now();
  order_release(&point.token);
}

void push(CUstream_st& stream, Item item) {
  if (stream.capture == nullptr) {
    stream.items.push_back(std::make_unique<Item>(std::move(item)));
    order_release(&stream.items.back()->token);
    return;
  }
  Capture& capture = *stream.capture;
  if (capture.thread != std::this_thread::get_id()) {
    throw Fault("a thread queues work on a stream that another captures");
  }
  if (item.work) capture.recording.work.push_back(std::move(item.work));
}

void run_until(Point& point, Order order) {
  guarded([&] {
    if (order == Order::others_first) step_others(point.stream);
    step_until(point);
  });
  order_acquire(&point.token);
}

void run_all(CUstream_st& stream, Order order) {
  guarded([&] {
    if (order == Order::others_first) step_others(&stream);
    while (!stream.items.empty()) step(stream);
  });
  order_acquire(&stream.done);
}

void run_everything() {
  for (CUstream_st* stream : streams()) run_all(*stream, Order::late);
}

void discard_everything() {
  for (CUstream_st* stream : streams()) {
    for (const auto& item : stream->items) {
      if (item->reached != nullptr) reach(*item->reached);
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
