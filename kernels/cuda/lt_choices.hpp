// SPDX-License-Identifier: Apache-2.0
// Which weights a library's GEMM may multiply by without a row's bits depending on the batch: one
// algorithm a shape, kept in a file, trusted for a bucket of rows only after a test. No CUDA here:
// what finds and tries algorithms is given.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/dtype.hpp"

namespace cairn::kernels::cuda {

/// A weight [n, k] and what products are rounded to.
struct LtShape {
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool bf16_out = false;  // fp32 otherwise
  auto operator<=>(const LtShape&) const = default;
  std::size_t row_bytes() const { return static_cast<std::size_t>(n) * (bf16_out ? 2 : 4); }
};

/// The library's own description of an algorithm; means the same to the same version only.
struct LtAlgorithm {
  std::array<std::uint64_t, 8> words{};
  bool operator==(const LtAlgorithm&) const = default;
};

/// What the algorithms of a file belong to.
struct LtIdentity {
  std::string device;  // its name, as in "NVIDIA H200"
  std::uint64_t library = 0;
  bool operator==(const LtIdentity&) const = default;
};

/// Finds and tries algorithms for one weight.
class LtTrials {
 public:
  virtual ~LtTrials() = default;
  /// The library's advice for the smallest bucket; nullopt when it has none.
  virtual std::optional<LtAlgorithm> choose(const LtShape& shape) = 0;
  /// Rows `places` of x W^T, one after another; nullopt when the algorithm does not take so many
  /// rows. x is [rows, k].
  virtual std::optional<std::vector<std::byte>> multiply(const LtShape& shape,
                                                         const LtAlgorithm& algorithm,
                                                         std::span<const Bf16> x,
                                                         std::span<const std::int64_t> places) = 0;
};

/// The choices of one device. Not thread-safe. A shape whose algorithm fails a bucket is left to
/// our own kernel for good: the file says so to the next start, too.
class LtChoices {
 public:
  /// Reads `file`, if there is one ("": nothing is kept). One of another device or library version
  /// is ignored, a damaged one reported to the log; either is written anew by the next choice.
  LtChoices(LtIdentity identity, std::string file);

  /// The algorithm for up to `max_rows` rows, which has then passed the test of every bucket up to
  /// theirs: the rows of the smallest bucket, put to other places among other rows, keep their
  /// bits. nullopt: ours.
  std::optional<LtAlgorithm> prepare(const LtShape& shape, std::int64_t max_rows, LtTrials& trials);

  /// Shapes left to our own kernel.
  int rejected() const;

  /// Of device, library version and the algorithms of all shapes prepared so far: where it is the
  /// same, products have the same bits. 16 digits.
  std::string digest() const;

 private:
  struct Choice {
    std::optional<LtAlgorithm> algorithm;
    std::int64_t failed_bucket = 0;  // without an algorithm; 0: the library has none
    std::int64_t tested_rows = 0;    // in this process: buckets up to this one passed
    bool prepared = false;           // in this process
  };

  void read();
  void write() const;
  std::string title() const;
  std::string text() const;
  bool parse(const std::string& text);
  void reject(const LtShape& shape, Choice& choice, std::int64_t bucket);

  LtIdentity identity_;
  std::string file_;
  std::map<LtShape, Choice> choices_;
};

}  // namespace cairn::kernels::cuda
