// SPDX-License-Identifier: Apache-2.0
// What a device has to offer: one step of the model over a ragged batch, on memory that the
// engine's pools own. The executor drives every device through this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/net/config.hpp"

namespace cairn::model {

/// Tokens of a KV block, everywhere.
inline constexpr std::int32_t kBlockTokens = 16;

enum class KvType : std::uint8_t { bf16, f32 };

/// Sizes of what the pools hold. One KV block is the keys and values of 16 consecutive positions in
/// every attention layer; one state is every recurrent layer's S and conv window, fp32.
struct MemoryLayout {
  std::size_t kv_block_bytes = 0;
  std::size_t state_bytes = 0;
  std::size_t kv_bytes_per_token() const { return kv_block_bytes / kBlockTokens; }
};

/// A state to be copied out while the step runs.
struct SavePoint {
  std::int32_t position = 0;   // tokens covered; position of the slice < p <= its end
  std::byte* state = nullptr;  // [state_bytes], written by the step
};

/// One sequence's share of a step. Everything pointed to outlives the step.
struct StepSlice {
  std::span<const std::int32_t> tokens;  // [n], n >= 1
  std::int32_t position = 0;             // absolute position of tokens[0]
  std::span<std::byte* const>
      kv_blocks;               // block i holds positions [16 i, 16 i + 16); covers position + n
  std::byte* state = nullptr;  // running state at `position` on entry, at position + n on return
  std::span<const SavePoint> saves;  // ascending positions
  std::int32_t logits_from = -1;     // first row of `tokens` whose logits are wanted; -1: none
};

/// Logits in order of the slices, rows ascending. The memory belongs to the backend and holds until
/// its next step.
struct StepLogits {
  const float* data = nullptr;  // [rows, vocab] fp32
  std::int32_t rows = 0;
  std::int32_t vocab = 0;  // row stride; ids at and above ModelConfig::sampled_vocab are padding
  std::span<const float> row(std::int32_t i) const {
    return {data + static_cast<std::int64_t>(i) * vocab, static_cast<std::size_t>(vocab)};
  }
};

struct BackendInfo {
  std::string device;   // "cpu"
  std::string isa;      // "avx512"
  std::string weights;  // "bf16"
  std::string kv;       // "bf16"
  int threads = 0;
};

/// A loaded model on one device. Not thread-safe: one owner (the executor) calls it. Throws
/// DeviceError when the device fails and InvariantError on a malformed step; never on what a client
/// sent.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const ModelConfig& config() const = 0;
  virtual MemoryLayout layout() const = 0;
  virtual BackendInfo info() const = 0;

  /// Runs every slice, rows of all slices sharing each pass over the weights. Rows do not influence
  /// one another: the bits of a row are those it has alone, whatever the batch, the split or the
  /// threads.
  virtual StepLogits step(std::span<const StepSlice> slices) = 0;

  /// Makes `state` the state before any token.
  virtual void reset_state(std::byte* state) = 0;
  virtual void copy_state(const std::byte* from, std::byte* to) = 0;
  /// Copies the first `tokens` slots of a KV block (a resume inside a block gets a private copy).
  virtual void copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) = 0;
};

/// Options of the CPU backend.
struct CpuOptions {
  int threads = 0;  // 0: physical cores
  KvType kv = KvType::bf16;
  std::string isa;  // "", "avx512", "avx2", "portable"; "" takes CAIRN_ISA, else the best there is
  std::int32_t max_step_tokens = 4096;  // rows a step may have
};

class Weights;

/// Throws DeviceError when `isa` is unknown or not supported here.
std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<const Weights> weights,
                                          const CpuOptions& options);

}  // namespace cairn::model
