// SPDX-License-Identifier: Apache-2.0
#include "actors/tickets.hpp"

#include <exception>
#include <string>
#include <utility>

#include "base/log.hpp"

namespace cairn::actors {

void Tickets::open(RequestId id, EventSink sink) {
  auto entry = std::make_shared<Entry>();
  entry->sink = std::move(sink);
  std::lock_guard lock(mutex_);
  entries_.emplace(id, std::move(entry));
}

void Tickets::deliver(RequestId id, Event event) {
  const bool last =
      std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end()) return;
    entry = it->second;
    if (last) entries_.erase(it);
  }
  std::lock_guard lock(entry->mutex);
  if (!entry->sink) return;
  // The sink goes after its last call: it may own what the client waits on.
  const EventSink once = last ? std::exchange(entry->sink, nullptr) : EventSink();
  try {
    (last ? once : entry->sink)(std::move(event));
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("a client's event sink threw: ") + e.what());
  } catch (...) {
    log(LogLevel::error, "a client's event sink threw");
  }
}

void Tickets::fail_all(const Error& error) {
  for (const RequestId id : open_ids()) deliver(id, Failed{error, {}});
}

bool Tickets::is_open(RequestId id) const {
  std::lock_guard lock(mutex_);
  return entries_.count(id) > 0;
}

std::size_t Tickets::open_count() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

std::vector<RequestId> Tickets::open_ids() const {
  std::lock_guard lock(mutex_);
  std::vector<RequestId> ids;
  ids.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) ids.push_back(id);
  return ids;
}

}  // namespace cairn::actors
