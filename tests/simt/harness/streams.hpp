// SPDX-License-Identifier: Apache-2.0
// The order of work that has been put off. Everything here is called under the harness' Lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/simt/harness/device.hpp"

struct CUstream_st;

namespace cairn::simt {

/// A place in a stream's work.
struct Point {
  CUstream_st* stream = nullptr;  // null once reached
  std::chrono::steady_clock::time_point when;
};

struct Item {
  std::function<void()> work;      // may be empty
  std::shared_ptr<Point> after;    // not before this is reached
  std::shared_ptr<Point> reached;  // with this item
};

/// What a graph holds.
using Recording = std::vector<std::function<void()>>;

/// A stream's capture by the thread that began it.
struct Capture {
  Recording work;
  std::thread::id thread;
  bool broken = false;  // by a call that no graph can hold
};

}  // namespace cairn::simt

struct CUstream_st {
  int device = 0;
  std::deque<cairn::simt::Item> items;
  std::unique_ptr<cairn::simt::Capture> capture;
};

namespace cairn::simt {

/// Adds work to the stream or to its capture.
void push(CUstream_st& stream, Item item);

/// Runs what the host waits for. A Fault drops all work of all streams, as an error of a device
/// ends its context.
void run_until(Point& point, Order order);
void run_all(CUstream_st& stream, Order order);
/// As memory that is given back waits for its device.
void run_everything();
void discard_everything();

/// Of the streams that are known here.
void add_stream(CUstream_st& stream);
void remove_stream(CUstream_st& stream);

}  // namespace cairn::simt
