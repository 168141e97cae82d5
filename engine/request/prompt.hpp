// SPDX-License-Identifier: Apache-2.0
// From a request's prompt to token ids and the positions in them that mean something.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/model_bundle.hpp"
#include "engine/placement/cache_policy.hpp"

namespace cairn::engine {

struct EncodedPrompt {
  std::vector<std::int32_t> tokens;
  // Ascending, one a position: message starts, the generation prompt's start, places that the
  // client marked.
  std::vector<StructuralPoint> structure;
  std::string text;  // what was tokenized; of ids, what they decode to
};

/// Thread-safe for one bundle. `marks`: GenerateRequest::cache_positions. Errors are the client's
/// (bad_request, unsupported), with the field in `param`.
Result<EncodedPrompt> encode_prompt(const ModelBundle& bundle, const Prompt& prompt,
                                    std::span<const std::int32_t> marks = {});

}  // namespace cairn::engine
