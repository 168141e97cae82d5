// SPDX-License-Identifier: Apache-2.0
// What a load asks of a server besides its requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/load/scrape.hpp"
#include "cli/load/workload.hpp"

namespace cairn::load {

struct ServedModel {
  std::string id;
  std::int64_t context = 0, vocabulary = 0;  // 0: not told
};

/// Each call is one request that blocks, at most ten seconds. Thread-safe.
class Served {
 public:
  Served(std::string url, std::string api_key, std::string admin_key)
      : url_(std::move(url)), api_key_(std::move(api_key)), admin_key_(std::move(admin_key)) {}

  /// The first it lists. Throws LoadError where it does not answer with a list of models.
  ServedModel model() const;
  /// Of a prompt, or of messages as a JSON array; nothing where the server cannot say.
  std::optional<Tokens> tokens_of(const std::string& question) const;
  /// Nothing where it has no counters.
  Series series() const;
  /// Why it could not be done; "" when it was.
  std::string drop_cache() const;

 private:
  std::string url_, api_key_, admin_key_;
};

}  // namespace cairn::load
