// SPDX-License-Identifier: Apache-2.0
// Recorded request sequences, as the simulator replays them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::engine {

/// What a trace says of one request beside its tokens.
struct TraceRequest {
  static constexpr std::int32_t kNotStated = -1;

  std::int32_t length = 0;  // tokens of the prompt, at least 1
  /// Longest common prefix with any earlier request, 0 to `length`.
  std::int32_t overlap = kNotStated;
  std::int32_t parent = kNotStated;         // an earlier request that attains the overlap
  std::int32_t output_tokens = kNotStated;  // length of the answer; its tokens are never known
  double arrival_seconds = kNotStated;      // since the start of the trace
};

/// A finite sequence of requests. Immutable; thread-safe to read.
class Trace {
 public:
  using Tokens = std::shared_ptr<const std::vector<std::int32_t>>;

  explicit Trace(std::vector<TraceRequest> requests) : requests_(std::move(requests)) {}
  virtual ~Trace() = default;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  std::size_t size() const { return requests_.size(); }
  const TraceRequest& operator[](std::size_t i) const { return requests_[i]; }

  /// The prompt of request i, `length` ids >= 0. May be built anew at every call, O(length): hold
  /// it only as long as it is used (mix5 has 63.6 M tokens in all, an agent's day ten times that).
  virtual Tokens tokens(std::size_t i) const = 0;

 private:
  std::vector<TraceRequest> requests_;
};

struct TraceOptions {
  std::int32_t block_size = 512;  // tokens that one id of a block-hash trace stands for
};

/// Reads a trace, plain or gzip, of one of three formats told apart by the first line:
///
///   {"tokens": [1, 2, ...]} or {"prompt_token_ids": [...]} or [1, 2, ...]    one prompt a line
///   {"timestamp": ms, "input_length": n, "output_length": m, "hash_ids": [...]}   block hashes:
///       an id stands for a block and all before it; a last partial block may have an id or not
///   prompt_tokens,overlap_tokens,parent[,t_ms][,output_tokens]     CSV with a header, any order of
///       columns, others ignored; parent is -1 or the row (from 0) that shares the overlap
///
/// The first format may state "timestamp" and "output_length" as well. Ids of block-hash and CSV
/// traces are renamed: equal where the prompts agree, different elsewhere. Throws LoadError naming
/// file, line, field and what was expected.
std::unique_ptr<const Trace> read_trace(const std::string& path, const TraceOptions& options = {});

/// A trace of stated overlaps: request i's prompt is its parent's up to the overlap and then ids
/// that no request before has. Throws InvariantError where a parent is not earlier or an overlap
/// longer than either prompt.
std::unique_ptr<const Trace> chain_trace(std::vector<TraceRequest> requests);

}  // namespace cairn::engine
