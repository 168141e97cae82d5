// SPDX-License-Identifier: Apache-2.0
// From a request's prompt to token ids and the positions in them that mean something.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/model_bundle.hpp"
#include "engine/placement/cache_policy.hpp"

namespace cairn::engine {

struct EncodedPrompt {
  std::vector<std::int32_t> tokens;
  std::vector<StructuralPoint>
      structure;     // ascending: message starts, then the generation prompt's start
  std::string text;  // what was tokenized; empty for prompts of ids
};

/// Thread-safe for one bundle. Errors are the client's (bad_request, unsupported), with the field
/// in `param`.
Result<EncodedPrompt> encode_prompt(const ModelBundle& bundle, const Prompt& prompt);

}  // namespace cairn::engine
