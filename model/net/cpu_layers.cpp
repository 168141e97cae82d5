// SPDX-License-Identifier: Apache-2.0
// What all layers share: projections, norms, the MLP, split among threads.
#include <algorithm>

#include "kernels/cpu/chunks.hpp"
#include "model/net/cpu_backend.hpp"

namespace cairn::model {
namespace {

constexpr std::int64_t kAddGrain = 1 << 14;  // elements of an addition worth a chunk

}  // namespace

void CpuBackend::gemm(const kernels::PackedMatrix& w, std::int64_t panel_begin,
                      std::int64_t panel_end, const float* x, std::int64_t ldx, std::int64_t rows,
                      float* y, std::int64_t ldy, Made made) {
  if (rows == 0) return;
  if (made == Made::plain && rounds_input()) {
    split(rows, kernels::kRoundGrain, [&](std::int64_t begin, std::int64_t end) {
      round_input(x, ldx, rows, w.k(), begin, end);
    });
  }
  const auto multiply = [&](std::int64_t first_panel, std::int64_t last_panel, std::int64_t begin,
                            std::int64_t end) {
    first_panel += panel_begin;
    last_panel += panel_begin;
    float* const to = y + begin * ldy;
    if (w.format() != kernels::WeightFormat::bf16) {
      ops_.gemm_quantised(w, first_panel, last_panel, quantised_rows(rows, w.k()), begin,
                          end - begin, to, ldy);
    } else if (activations_ == kernels::Activations::bf16) {
      ops_.gemm_rounded(w, first_panel, last_panel, rounded_rows(rows, w.k()), begin, end - begin,
                        to, ldy);
    } else {
      ops_.gemm(w, first_panel, last_panel, x + begin * ldx, ldx, end - begin, to, ldy);
    }
  };
  kernels::split_product(pool_, panel_end - panel_begin, rows, multiply);
}

kernels::QuantRows CpuBackend::quantised_rows(std::int64_t rows, std::int64_t k) {
  return kernels::QuantRows::over({rounded_memory_.data(), rounded_memory_.size()}, rows, k,
                                  weights_->format);
}

kernels::RoundedRows CpuBackend::rounded_rows(std::int64_t rows, std::int64_t k) {
  return kernels::RoundedRows::over({rounded_memory_.data(), rounded_memory_.size()}, rows, k);
}

void CpuBackend::round_input(const float* x, std::int64_t ldx, std::int64_t rows, std::int64_t k,
                             std::int64_t begin, std::int64_t end) {
  if (weights_->format == kernels::WeightFormat::bf16) {
    ops_.round_rows(x, ldx, begin, end, rounded_rows(rows, k));
  } else {
    ops_.quantise_rows(x, ldx, begin, end, quantised_rows(rows, k));
  }
}

template <class Make>
void CpuBackend::make_rows(std::int64_t rows, const float* x, std::int64_t ldx, std::int64_t k,
                           Make&& make) {
  const bool rounds = rounds_input();
  split(rows, kernels::kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      make(r);
      if (rounds) round_input(x, ldx, rows, k, r, r + 1);
    }
  });
}

void CpuBackend::norm_rows(const std::vector<float>& w, std::int64_t rows) {
  make_rows(rows, normed_, ld_hidden_, config().hidden_size, [&](std::int64_t r) {
    ops_.rms_norm(x_ + r * ld_hidden_, ld_hidden_, 1, config().hidden_size, w.data(),
                  config().rms_norm_eps, normed_ + r * ld_hidden_, ld_hidden_);
  });
}

void CpuBackend::add_and_norm(const std::vector<float>& w, std::int64_t rows) {
  make_rows(rows, normed_, ld_hidden_, config().hidden_size, [&](std::int64_t r) {
    float* const x = x_ + r * ld_hidden_;
    ops_.residual_add(x, output_ + r * ld_hidden_, config().hidden_size);
    ops_.rms_norm(x, ld_hidden_, 1, config().hidden_size, w.data(), config().rms_norm_eps,
                  normed_ + r * ld_hidden_, ld_hidden_);
  });
}

void CpuBackend::add_output(std::int64_t rows) {
  split(rows * ld_hidden_, kAddGrain, [&](std::int64_t begin, std::int64_t end) {
    ops_.residual_add(x_ + begin, output_ + begin, end - begin);
  });
}

void CpuBackend::run_mlp(const LayerWeights& layer, const Tile& tile) {
  const std::int64_t inner = config().intermediate_size;
  gemm(layer.gate_up, normed_, ld_hidden_, tile.rows, wide_, ld_wide_, Made::rounded);
  make_rows(tile.rows, wide_, ld_wide_, inner, [&](std::int64_t r) {
    float* const gate = wide_ + r * ld_wide_;
    ops_.swiglu(gate, ld_wide_, gate + inner, ld_wide_, 1, inner, gate, ld_wide_);
  });
  gemm(layer.down, wide_, ld_wide_, tile.rows, output_, ld_hidden_, Made::rounded);
}

}  // namespace cairn::model
