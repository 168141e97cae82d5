// SPDX-License-Identifier: Apache-2.0
// Every accepted request, so that each gets exactly one last event whatever dies.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/engine.hpp"

namespace cairn::actors {

/// Thread-safe. Events of one request are delivered one at a time; after its last one the request
/// is forgotten and later events are dropped.
class Tickets {
 public:
  void open(RequestId id, EventSink sink);
  /// Calls the request's sink on this thread. A sink that throws is logged.
  void deliver(RequestId id, Event event);
  /// Ends every open request with this error.
  void fail_all(const Error& error);
  bool is_open(RequestId id) const;
  std::size_t open_count() const;
  std::vector<RequestId> open_ids() const;

 private:
  struct Entry {
    std::mutex mutex;  // held while the sink runs
    EventSink sink;    // empty once the last event was delivered
  };
  mutable std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<Entry>> entries_;
};

}  // namespace cairn::actors
