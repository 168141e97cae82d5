// SPDX-License-Identifier: Apache-2.0
// The tiny model behind real actors, and requests of token ids for it.
#pragma once

#include <vector>

#include "actors/testing.hpp"
#include "base/failpoints.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/client.hpp"

namespace cairn::tests {

inline EngineOptions tiny() {
  EngineOptions o;
  o.model = CAIRN_FIXTURES "/tiny";
  o.device = "cpu";
  o.threads = 1;
  o.cache_bytes = 8'000'000;
  return o;
}

inline std::vector<std::int32_t> ids(std::size_t n, std::int32_t seed) {
  std::vector<std::int32_t> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<std::int32_t>((i * 37 + static_cast<std::size_t>(seed) * 101 + i * i % 7) %
                                       128);
  }
  return out;
}

inline GenerateRequest endless(std::vector<std::int32_t> prompt, std::int32_t max_tokens) {
  GenerateRequest r = ids_request(std::move(prompt), max_tokens);
  r.ignore_eos = true;
  return r;
}

inline void require_empty_pools(Engine& engine) {
  actors::drop_cache(engine);
  const EngineStats s = engine.stats();
  CHECK(s.kv_blocks == 0);
  CHECK(s.states == 0);
  CHECK(s.running == 0);
  CHECK(s.waiting == 0);
}

struct Failpoints {
  explicit Failpoints(const char* table) { set_failpoints(table); }
  ~Failpoints() { set_failpoints(""); }
};

}  // namespace cairn::tests
