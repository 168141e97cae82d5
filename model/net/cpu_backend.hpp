// SPDX-License-Identifier: Apache-2.0
// The CPU backend's inside; others include backend.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/chunks.hpp"
#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/thread_pool.hpp"
#include "model/net/backend.hpp"
#include "model/net/memory_layout.hpp"
#include "model/net/packed_weights.hpp"

namespace cairn::model {

/// Rows of one attention call: they share each tile of keys.
inline constexpr std::int32_t kAttentionRows = 16;

/// Consecutive rows of one slice inside a tile.
struct TilePart {
  std::int32_t slice = 0;
  std::int32_t row = 0;  // first row in the tile
  std::int32_t rows = 0;
  std::int32_t offset = 0;     // of the first row in the slice's tokens
  std::int32_t position = 0;   // absolute, of the first row
  std::int32_t read_from = 0;  // rows at and after it (0..rows) have logits that somebody reads
};

/// Rows that go through the layers together.
struct Tile {
  std::vector<TilePart> parts;
  std::int32_t rows = 0;
};

/// One work area per thread for kernels that need one. Any thread of a pool with at most `slots`
/// threads may take one at any time.
class ScratchSlots {
 public:
  ScratchSlots(int slots, std::int64_t elements);
  class Lease {
   public:
    Lease(float* data, std::atomic_flag& flag) : data_(data), flag_(flag) {}
    ~Lease() { flag_.clear(std::memory_order_release); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    float* data() const { return data_; }

   private:
    float* data_;
    std::atomic_flag& flag_;
  };
  Lease take();

 private:
  std::size_t stride_bytes_;
  kernels::HugeBuffer memory_;
  std::vector<std::atomic_flag> taken_;
};

/// Sees the residual stream after each layer: [rows, ld] of which hidden_size values count. Tests
/// only.
using LayerTap =
    std::function<void(std::int32_t layer, const Tile& tile, const float* x, std::int64_t ld)>;

class CpuBackend final : public Backend {
 public:
  CpuBackend(std::shared_ptr<const Weights> weights, const CpuOptions& options);

  const ModelConfig& config() const override { return weights_->config; }
  KvType kv_type() const { return kv_.type == kernels::KvType::bf16 ? KvType::bf16 : KvType::f32; }
  MemoryLayout layout() const override;
  BackendInfo info() const override;
  StepLogits step(std::span<const StepSlice> slices) override;
  StepLogits read_logits() override;
  HostSlotCopy host_slot_copy() const override;
  void reset_state(std::byte* state) override;
  void copy_state(const std::byte* from, std::byte* to) override;
  void copy_kv_slots(const std::byte* from, std::byte* to, std::int32_t tokens) override;

  void set_layer_tap(LayerTap tap) { tap_ = std::move(tap); }

 private:
  // cpu_backend.cpp
  void run_tile(Tile& tile);
  void begin_tile(const Tile& tile);
  void run_head(const Tile& tile);
  void reserve_logits(std::int64_t rows);
  // Keeps only the rows that somebody reads; moves them, and the normed ones, together.
  void keep_read_rows(Tile& tile);

  // cpu_layers.cpp: parallel forms of the kernels, on rows of a tile. Where weights take x rounded,
  // to integers or to bf16, that is done once for all panels: by gemm, or (Made::rounded) before,
  // by the job that made the same rows, while its cache held them.
  enum class Made : std::uint8_t { plain, rounded };
  void gemm(const kernels::PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
            const float* x, std::int64_t ldx, std::int64_t rows, float* y, std::int64_t ldy,
            Made made);
  void gemm(const kernels::PackedMatrix& w, const float* x, std::int64_t ldx, std::int64_t rows,
            float* y, std::int64_t ldy, Made made = Made::plain) {
    gemm(w, 0, w.panels(), x, ldx, rows, y, ldy, made);
  }
  bool rounds_input() const { return rounded_memory_.size() > 0; }
  void round_input(const float* x, std::int64_t ldx, std::int64_t rows, std::int64_t k,
                   std::int64_t begin, std::int64_t end);
  kernels::QuantRows quantised_rows(std::int64_t rows, std::int64_t k);
  kernels::RoundedRows rounded_rows(std::int64_t rows, std::int64_t k);
  // make(r) for each row, which fills row r of x [rows, ldx], k values; ready for Made::rounded.
  template <class Make>
  void make_rows(std::int64_t rows, const float* x, std::int64_t ldx, std::int64_t k, Make&& make);
  void norm_rows(const std::vector<float>& w, std::int64_t rows);     // x -> normed
  void add_and_norm(const std::vector<float>& w, std::int64_t rows);  // x += output; x -> normed
  void add_output(std::int64_t rows);                                 // x += output
  void run_mlp(const LayerWeights& layer, const Tile& tile);          // normed -> output
  // fn(begin, end) over [0, n), at least `grain` at a time; on this thread alone when that is all.
  template <class F>
  void split(std::int64_t n, std::int64_t grain, F&& fn);

  // cpu_recurrent.cpp
  void run_recurrent(const LayerWeights& layer, std::int32_t index, const Tile& tile);
  void run_gates(const LayerWeights& layer, const Tile& tile);  // wide -> decay, beta
  void convolve(const LayerWeights& layer, std::size_t offset, const TilePart& part,
                std::int32_t key_head);
  void recur(const LayerWeights& layer, std::size_t offset, const TilePart& part,
             std::int32_t value_head, std::int32_t column_begin, std::int32_t column_end);

  // cpu_attention.cpp
  void run_attention(const LayerWeights& layer, std::int32_t index, Tile& tile, bool last);
  void store_keys(const LayerWeights& layer, std::size_t offset, const TilePart& part,
                  std::int64_t row);
  void rotate_queries(const LayerWeights& layer, std::int64_t tile_row);
  void gate_output(std::int64_t tile_row, std::int64_t kv_head);  // the heads that share it
  void attend(std::size_t offset, const Tile& tile);
  void attend_by_ranges(std::size_t offset, const Tile& tile);
  kernels::AttentionArgs attention_args(std::size_t offset, const TilePart& part, std::int32_t row,
                                        std::int32_t rows, std::int32_t kv_head) const;

  std::shared_ptr<const Weights> weights_;
  const kernels::Ops& ops_;
  kernels::ThreadPool pool_;
  kernels::KvLayout kv_;
  kernels::Activations activations_;
  std::int32_t max_step_tokens_;
  const CpuStateLayer state_layer_;

  // Row strides, elements. Padded so that rows do not share cache sets.
  std::int64_t ld_hidden_;
  std::int64_t ld_wide_;
  std::int64_t ld_mixed_;
  // All [tile rows, ld] fp32, reused by every layer.
  kernels::HugeBuffer x_memory_, normed_memory_, output_memory_, wide_memory_, query_memory_,
      mixed_memory_, decay_memory_, beta_memory_, cos_memory_, sin_memory_;
  float* x_;       // residual stream, hidden
  float* normed_;  // input of the projections, hidden
  float* output_;  // of mixer or MLP, hidden
  float* wide_;    // projections of mixer or MLP
  float* query_;   // queries after norm and RoPE
  float* mixed_;   // attention or recurrence output, before the output projection
  float* decay_;   // [tile rows, value heads]
  float* beta_;    // [tile rows, value heads]
  float* cos_;     // [tile rows, rotary_dim / 2]
  float* sin_;
  ScratchSlots attention_scratch_;
  kernels::HugeBuffer rounded_memory_;  // [tile rows] of the widest input, or none: QuantRows of
                                        // integer weights, RoundedRows of bf16 ones
  kernels::HugeBuffer partials_;        // of attention by ranges; grows with the context
  kernels::HugeBuffer logits_;          // [rows, vocab]; grows with the rows asked for
  std::int64_t logits_rows_ = 0;        // filled in this step
  std::vector<double> rope_frequency_;  // [rotary_dim / 2]

  std::span<const StepSlice> slices_;  // of the running step
  LayerTap tap_;
};

template <class F>
void CpuBackend::split(std::int64_t n, std::int64_t grain, F&& fn) {
  kernels::split(pool_, n, grain, fn);
}

}  // namespace cairn::model
