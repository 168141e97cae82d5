// SPDX-License-Identifier: Apache-2.0
// Questions on a document: tokens computed beside what the simulator says, answers beside those of
// an engine without a cache.
#pragma once

#include <cstdint>
#include <string>

#include "bench/live/findings.hpp"

namespace cairn::bench {

struct DocumentOptions {
  std::string model;
  std::string activations = "bf16";  // as EngineOptions has it
  int threads = 0;                   // 0: physical cores
  std::uint64_t cache_bytes = std::uint64_t{4} << 30;
  std::int32_t document = 2000, question = 50, answer = 4;  // tokens
  int prompts = 8;        // of each kind: questions on the whole document, and leaving it anywhere
  int at_once = 4;        // questions on the cached document
  int compare_every = 1;  // answers that are also computed without a cache: each, every second, ...
};

struct DocumentResult {
  std::int64_t prompt_tokens = 0, computed = 0, predicted = 0;
  std::int32_t most_at_once = 0;  // tokens computed of one of the questions asked at once
  int compared = 0, different = 0;
};

/// Throws LoadError.
DocumentResult measure_document(const DocumentOptions& options);
Findings findings_of(const DocumentResult& result);

}  // namespace cairn::bench
