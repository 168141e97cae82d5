// SPDX-License-Identifier: Apache-2.0
// What a device has to offer: one step of the model over a ragged batch, on memory that the
// engine's pools own. The executor drives every device through this interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/activations.hpp"
#include "model/net/config.hpp"
#include "model/net/sampler.hpp"

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
  const float* data = nullptr;  // [rows, vocab] fp32; null while a device keeps them
  std::int32_t rows = 0;
  std::int32_t vocab = 0;  // row stride; ids at and above ModelConfig::sampled_vocab are padding
  std::span<const float> row(std::int32_t i) const {
    return {data + static_cast<std::int64_t>(i) * vocab, static_cast<std::size_t>(vocab)};
  }
};

/// How a row of the last step's logits is to be sampled.
struct SampleRow {
  std::int32_t row = 0;
  const SamplingParams* params = nullptr;
  const TokenHistory* history = nullptr;  // may be null when no penalty is set
  std::int32_t choice = 0;                // with `index`: the random number's counter
  std::uint64_t index = 0;                // of the token within its answer
};

struct SampledRow {
  std::int32_t token = 0;
  bool finite = true;  // false: some logit is no finite number, and the token means nothing
};

/// Device memory that pools hand out: one range, 256-byte aligned. Thread-safe. Throws DeviceError.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t size() const = 0;
  /// Copies to and from host memory, after the steps and copies that the backend has begun; done
  /// when they return.
  virtual void read(const std::byte* from, std::span<std::byte> to) = 0;
  virtual void write(std::span<const std::byte> from, std::byte* to) = 0;
  /// Host memory that read and write reach without a copy between. It may outlive the arena.
  virtual std::shared_ptr<std::byte> host_memory(std::size_t bytes) {
    return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
  }
  /// Waits for the steps and copies that the backend has begun.
  void finish() {
    std::array<std::byte, 16> some{};
    read(data(), some);
  }
};

struct BackendInfo {
  std::string device;   // "cpu", "cuda:0 NVIDIA H200 (sm_90)"
  std::string isa;      // "avx512", "sm_90"
  std::string weights;  // "bf16", "int8"
  std::string kv;       // "bf16", "f32", "f16"
  int threads = 0;
  std::string activations = "bf16";  // what products with bf16 weights take: "bf16", "fp32"
  std::string gemm = "exact";        // "cublaslt 0123456789abcdef": LtGemm::digest()
};

/// A loaded model on one device. Not thread-safe: one owner (the executor) calls it. Throws
/// DeviceError when the device fails and InvariantError on a malformed step; never on what a client
/// sent.
class Backend {
 public:
  /// Waits for what has been queued, also by a step that threw: memory that it works on is its
  /// owner's to give away from then on.
  virtual ~Backend() = default;
  virtual const ModelConfig& config() const = 0;
  virtual MemoryLayout layout() const = 0;
  virtual BackendInfo info() const = 0;

  /// Runs every slice, rows of all slices sharing each pass over the weights. Rows do not influence
  /// one another: the bits of a row are those it has alone, whatever the batch, the split or the
  /// threads.
  virtual StepLogits step(std::span<const StepSlice> slices) = 0;
  /// The last step's logits in host memory.
  virtual StepLogits read_logits() = 0;

  /// Samples rows of the last step on the device, from ids below `vocab`, with the tokens that
  /// Sampler gives; waits for the step, also without rows. False (and `out` untouched): the backend
  /// leaves it to the host's Sampler.
  virtual bool sample([[maybe_unused]] std::span<const SampleRow> rows,
                      [[maybe_unused]] std::int32_t vocab,
                      [[maybe_unused]] std::vector<SampledRow>& out) {
    return false;
  }

  /// Memory for blocks and states: null when the host's own will do. A step's pointers then lie in
  /// the arena that was made last.
  virtual std::shared_ptr<Arena> make_arena([[maybe_unused]] std::size_t bytes) { return nullptr; }
  /// Goes on with an arena, and what lies in it, that another backend of this device made and that
  /// is there no more. For backends whose make_arena gives one.
  virtual void use_arena([[maybe_unused]] const std::shared_ptr<Arena>& arena) {}
  /// What the device has left for an arena; 0: arenas are the host's memory.
  virtual std::uint64_t free_bytes() const { return 0; }
  /// copy_kv_slots on copies of blocks in host memory. Thread-safe, outlives the backend.
  using HostSlotCopy =
      std::function<void(const std::byte* from, std::byte* to, std::int32_t tokens)>;
  virtual HostSlotCopy host_slot_copy() const = 0;

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
  kernels::Activations activations = kernels::Activations::bf16;
};

enum class CudaGemm : std::uint8_t { exact, cublaslt };
enum class CudaWeights : std::uint8_t { bf16, int8 };
/// Values of k that share a scale of an int8 weight.
inline constexpr std::int32_t kInt8Group = 128;

/// Options of the CUDA backend. Keys and values are bf16 (f16 on sm_75).
struct CudaOptions {
  int device = 0;
  CudaWeights weights = CudaWeights::bf16;
  CudaGemm gemm = CudaGemm::exact;
  std::string gemm_record;              // cublaslt: the file of chosen algorithms; "": none is kept
  std::int32_t max_step_tokens = 4096;  // rows a step may have
  std::int32_t max_slices = 64;         // sequences a step may have
  std::int32_t context_length = 0;      // positions a sequence may have; 0: the model's
  bool graphs = true;                   // decode steps as graphs
};

/// One device that the CUDA backend can use.
struct CudaDevice {
  int index = 0;
  std::string name;
  std::string architecture;  // "sm_90"
};
/// Throws DeviceError saying why there is none: built without CUDA, no driver, no device.
std::vector<CudaDevice> cuda_devices();

class Weights;

/// Throws DeviceError when the device cannot be used or has not the memory: names both.
std::unique_ptr<Backend> make_cuda_backend(const std::shared_ptr<const Weights>& weights,
                                           const CudaOptions& options);

/// Throws DeviceError when `isa` is unknown or not supported here.
std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<const Weights> weights,
                                          const CpuOptions& options);

}  // namespace cairn::model
