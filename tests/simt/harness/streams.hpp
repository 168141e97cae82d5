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
#include "tests/simt/harness/fibers.hpp"
#include "tests/simt/harness/machine.hpp"

struct CUstream_st;

namespace cairn::simt {

/// A place in a stream's work.
struct Point {
  CUstream_st* stream = nullptr;  // null once reached
  std::chrono::steady_clock::time_point when;
  char token = 0;  // for ThreadSanitizer, as the others here: released when reached
};
void reach(Point& point);

struct Item {
  std::function<void()> work = {};           // may be empty
  std::shared_ptr<Point> after = nullptr;    // not before this is reached
  std::shared_ptr<Point> reached = nullptr;  // with this item
  char token = 0;                            // released when queued
};

/// What a graph holds.
struct Recording {
  std::vector<std::function<void()>> work;
  mutable char token = 0;  // released when launched
};

/// A stream's capture by the thread that began it.
struct Capture {
  Recording recording;
  std::thread::id thread;
  bool broken = false;  // by a call that no graph can hold
};

}  // namespace cairn::simt

struct CUstream_st {
  std::deque<std::unique_ptr<cairn::simt::Item>> items;
  std::unique_ptr<cairn::simt::Capture> capture;
  cairn::simt::Aside aside;  // where its work runs
  cairn::simt::Machine machine;
  char done = 0;  // released with every item
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
