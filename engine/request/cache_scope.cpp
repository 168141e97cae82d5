// SPDX-License-Identifier: Apache-2.0
#include "engine/request/cache_scope.hpp"

#include "base/sha256.hpp"

namespace cairn::engine {

std::string cache_scope_of(std::string_view client_key, std::string_view salt) {
  if (client_key.empty() && salt.empty()) return {};
  // The key's length says where the salt begins.
  std::string both = "cairn cache scope " + std::to_string(client_key.size()) + ":";
  both += client_key;
  both += salt;
  return sha256(both);
}

}  // namespace cairn::engine
