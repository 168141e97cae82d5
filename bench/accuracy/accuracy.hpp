// SPDX-License-Identifier: Apache-2.0
// What a weight format costs: one model's logits in several formats beside those of a reference.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/net/backend.hpp"
#include "model/net/weights.hpp"

namespace cairn::bench {

/// Of one candidate against the reference.
struct Accuracy {
  std::string name;           // "int8/128"
  double perplexity = 0;      // of each next token, given those of its window before it
  double agreement = 0;       // share of rows whose likeliest token is the reference's
  double sure_agreement = 0;  // the same of the rows where that token has at least half of all
  double logit_error = 0;     // root mean square difference to the reference's logits, in units of
                              // their own standard deviation within a row
};

/// The model in one format, as the CPU serves it.
struct Candidate {
  std::string name;
  std::unique_ptr<model::Backend> backend;
};

/// A CPU backend on all threads, with keys, values and activations of these types.
std::unique_ptr<model::Backend> make_backend(
    std::shared_ptr<const model::Weights> weights, model::KvType kv,
    kernels::Activations activations = kernels::Activations::bf16);

/// Reads `tokens` in windows of `window`, each as a sequence of its own. The first of the list is
/// the reference. One entry for each of the list. Memory: the logits of two windows.
std::vector<Accuracy> measure_accuracy(std::span<const Candidate> candidates,
                                       std::span<const std::int32_t> tokens, std::int32_t window);

/// As a table, with each perplexity beside the one of `base`, an index of the list.
std::string table_of(std::span<const Accuracy> list, std::size_t base);

}  // namespace cairn::bench
