// SPDX-License-Identifier: Apache-2.0
// What operators ask of the prefix actor, from threads outside the actors.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "actors/mail.hpp"

namespace cairn::actors {

/// Thread-safe. Each call blocks its thread until the answer or the timeout; of each kind one is
/// answered at a time, another one meanwhile is unavailable at once. An actor that dies over it is
/// unavailable too.
class Admin {
 public:
  Result<DroppedCache> drop_cache(Mail& mail, std::chrono::milliseconds timeout);
  Result<std::string> plan_json(Mail& mail, std::chrono::milliseconds timeout);

 private:
  std::mutex dropping_;
  std::mutex explaining_;
};

}  // namespace cairn::actors
