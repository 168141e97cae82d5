// SPDX-License-Identifier: Apache-2.0
// What decides the bits of a stored state: two processes with equal fingerprints may exchange
// files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::engine {

/// Raised by hand whenever a kernel, a reduction order or a memory layout changes its results.
inline constexpr int kNumericsVersion = 3;

using FingerprintHash = std::array<std::byte, 32>;

/// The parts, each in its user's spelling. The version of the program is none of them: a build that
/// computes the same bits may read the files of another.
struct Fingerprint {
  std::uint64_t weights = 0;    // hash of every tensor that is used
  std::uint64_t config = 0;     // hash of the model's configuration
  std::uint64_t tokenizer = 0;  // hash of the vocabulary and merges; 0: token ids only
  std::string weight_format;    // "bf16", "int8/128" (format and group)
  std::string kv;               // KV type
  std::string activations;      // what products take: "bf16", "fp32"
  std::string isa;              // instruction set that the kernels were chosen for
  std::string device;           // "cpu", or the accelerator's architecture
  std::string gemm;             // which matrix kernels
  int numerics = kNumericsVersion;

  /// One "name=value" a line in a fixed order: what is hashed, stored and compared.
  std::string text() const;
  FingerprintHash hash() const;
};

/// The value of one part of a text; "" where there is none.
std::string fingerprint_part(std::string_view text, std::string_view name);

/// What differs between two texts, for the user: "isa was avx512, is avx2 here"; empty when equal.
std::string fingerprint_difference(std::string_view stored, std::string_view here);

/// 64-bit hash of any bytes (XXH3), for the parts.
std::uint64_t hash_bytes(std::string_view bytes);

}  // namespace cairn::engine
