// SPDX-License-Identifier: Apache-2.0
// Everything a model directory holds that serving needs: weights, tokenizer, chat template,
// defaults.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "model/net/weights.hpp"
#include "model/text/chat.hpp"
#include "model/text/tokenizer.hpp"

namespace cairn::engine {

/// Immutable after load; shared by all threads.
struct ModelBundle {
  std::string name;  // served name
  std::shared_ptr<const model::Weights> weights;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // null: token ids only
  std::optional<text::ChatTemplate> chat_template;   // unset: no chats
  std::vector<std::int32_t> stop_ids;                // end an answer unless ignore_eos
  std::int32_t sampled_vocab = 0;                    // ids below it may be produced
  Sampling defaults;                                 // generation_config.json
};

/// Names the stages of reading and keeping weights to `progress`, which may be empty.
void show_progress(const LoadProgress& progress, model::LoadOptions& load);

/// `options.model` is a directory or "demo", `format` that of its weights in memory. Throws
/// LoadError with a sentence for the user.
std::shared_ptr<const ModelBundle> load_model_bundle(
    const EngineOptions& options, kernels::WeightFormat format = kernels::WeightFormat::bf16);

}  // namespace cairn::engine
