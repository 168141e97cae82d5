// SPDX-License-Identifier: Apache-2.0
// Request sequences of the published comparison: supplied traces, seeded generators, and texts that
// somebody has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/simulate/trace.hpp"

namespace cairn::paper {

/// Groups (documents, system prompts) that are asked about at one time.
inline constexpr int kLive = 20;

struct Workload {
  std::string name;
  std::vector<engine::TraceRequest> requests;  // overlap and parent stated
};

/// A trace file with stated overlaps. Throws LoadError.
Workload from_trace(const std::string& name, const std::string& path);

/// Documents of 3,000 to 9,000 tokens with 12 to 24 questions each, the last of them often asked
/// about an excerpt that ends at one of five sections.
Workload generate_documents(std::uint64_t seed);
/// Prompts of the given lengths with 8 queries of 5 to 200 tokens each.
Workload generate_queries(std::span<const std::int32_t> prompt_tokens, std::uint64_t seed);
/// Contexts of 6,000 to 10,000 tokens that 40 requests each leave at depths spread over four wide
/// modes and a uniform share.
Workload generate_wide(std::uint64_t seed);

/// Column approx_tokens of a CSV file. Throws LoadError.
std::vector<std::int32_t> read_prompt_lengths(const std::string& path);

/// A text and what is asked about it; one request is the text and then one question.
struct Document {
  std::string text;
  std::vector<std::string> questions;
};
/// kLive documents at a time, whose questions come in random order; four bytes count as a token,
/// and overlaps are those of the texts.
Workload from_documents(const std::string& name, std::span<const Document> documents,
                        std::uint64_t seed);

}  // namespace cairn::paper
