// SPDX-License-Identifier: Apache-2.0
#include "actors/admin.hpp"

#include <future>
#include <memory>
#include <utility>

#include "engine/placement/plan_snapshot.hpp"

namespace cairn::actors {
namespace {

// Sends a message with a promise in it and waits for that.
template <class T, class Send>
Result<T> ask(std::mutex& turn, std::chrono::milliseconds timeout, const Send& send) {
  const std::unique_lock alone(turn, std::try_to_lock);
  if (!alone) return Error{ErrorCode::unavailable, "another one is being answered; try again", ""};
  auto reply = std::make_shared<std::promise<Result<T>>>();
  auto answer = reply->get_future();
  send(std::move(reply));
  if (answer.wait_for(timeout) != std::future_status::ready) {
    return Error{ErrorCode::unavailable,
                 "no answer within " + std::to_string(timeout.count()) + " ms", ""};
  }
  try {
    return answer.get();
  } catch (const std::future_error&) {  // the message went down with its actor
    return Error{ErrorCode::unavailable, "the cache's actor is being replaced; try again", ""};
  }
}

}  // namespace

Result<DroppedCache> Admin::drop_cache(Mail& mail, std::chrono::milliseconds timeout) {
  return ask<DroppedCache>(dropping_, timeout, [&](Reply<DroppedCache> reply) {
    mail.prefix(DropCache{std::move(reply)});
  });
}

Result<std::string> Admin::plan_json(Mail& mail, std::chrono::milliseconds timeout) {
  auto snapshot = ask<engine::PlanSnapshot>(
      explaining_, timeout,
      [&](Reply<engine::PlanSnapshot> reply) { mail.prefix(WantSnapshot{std::move(reply)}); });
  if (!snapshot) return snapshot.error();
  return engine::to_json(*snapshot);
}

}  // namespace cairn::actors
