// SPDX-License-Identifier: Apache-2.0
// What all layers share: projections, norms, the MLP, split among threads.
#include <algorithm>

#include "model/net/cpu_backend.hpp"

namespace cairn::model {
namespace {

constexpr std::int64_t kRowGrain = 4;        // rows of element-wise work worth a chunk
constexpr std::int64_t kRoundGrain = 16;     // rows rounded to bf16 worth a chunk
constexpr std::int64_t kQuantiseGrain = 8;   // rows rounded to integers worth a chunk
constexpr std::int64_t kAddGrain = 1 << 14;  // elements of an addition worth a chunk

}  // namespace

void CpuBackend::gemm(const kernels::PackedMatrix& w, std::int64_t panel_begin,
                      std::int64_t panel_end, const float* x, std::int64_t ldx, std::int64_t rows,
                      float* y, std::int64_t ldy) {
  if (rows == 0) return;
  if (w.format() == kernels::WeightFormat::bf16 && activations_ == kernels::Activations::bf16) {
    const auto rounded =
        kernels::RoundedRows::over({rounded_memory_.data(), rounded_memory_.size()}, rows, w.k());
    split(rows, kRoundGrain, [&](std::int64_t begin, std::int64_t end) {
      ops_.round_rows(x, ldx, begin, end, rounded);
    });
    split(panel_end - panel_begin, 1, [&](std::int64_t begin, std::int64_t end) {
      ops_.gemm_rounded(w, panel_begin + begin, panel_begin + end, rounded, rows, y, ldy);
    });
    return;
  }
  if (w.format() == kernels::WeightFormat::bf16) {
    split(panel_end - panel_begin, 1, [&](std::int64_t begin, std::int64_t end) {
      ops_.gemm(w, panel_begin + begin, panel_begin + end, x, ldx, rows, y, ldy);
    });
    return;
  }
  const auto quantised = kernels::QuantRows::over(
      {quantised_memory_.data(), quantised_memory_.size()}, rows, w.k(), w.format());
  split(rows, kQuantiseGrain, [&](std::int64_t begin, std::int64_t end) {
    ops_.quantise_rows(x, ldx, begin, end, quantised);
  });
  split(panel_end - panel_begin, 1, [&](std::int64_t begin, std::int64_t end) {
    ops_.gemm_quantised(w, panel_begin + begin, panel_begin + end, quantised, 0, rows, y, ldy);
  });
}

void CpuBackend::norm_rows(const std::vector<float>& w, std::int64_t rows) {
  split(rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    ops_.rms_norm(x_ + begin * ld_hidden_, ld_hidden_, end - begin, config().hidden_size, w.data(),
                  config().rms_norm_eps, normed_ + begin * ld_hidden_, ld_hidden_);
  });
}

void CpuBackend::add_output(std::int64_t rows) {
  split(rows * ld_hidden_, kAddGrain, [&](std::int64_t begin, std::int64_t end) {
    ops_.residual_add(x_ + begin, output_ + begin, end - begin);
  });
}

void CpuBackend::run_mlp(const LayerWeights& layer, const Tile& tile) {
  const std::int64_t inner = config().intermediate_size;
  norm_rows(layer.post_norm, tile.rows);
  gemm(layer.gate_up, normed_, ld_hidden_, tile.rows, wide_, ld_wide_);
  split(tile.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    float* const gate = wide_ + begin * ld_wide_;
    ops_.swiglu(gate, ld_wide_, gate + inner, ld_wide_, end - begin, inner, gate, ld_wide_);
  });
  gemm(layer.down, wide_, ld_wide_, tile.rows, output_, ld_hidden_);
  add_output(tile.rows);
}

}  // namespace cairn::model
