// SPDX-License-Identifier: Apache-2.0
// Kernels that move data and round, alike on every level, and the three tables behind ops().
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/flush_denormals.hpp"
#include "kernels/cpu/ops.hpp"

namespace cairn::kernels::shared {

void embed_packed(const PackedMatrix& w, std::int64_t row,
                  float* y);  // [k] fp32
void embed_quantised(const PackedMatrix& w, std::int64_t row,
                     float* y);  // [k] fp32
void quantise_rows(const float* x, std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                   const QuantRows& to);
void kv_store(const KvLayout& layout, std::byte* layer, std::int32_t slot,
              const float* k,   // [kv_heads, head_dim] fp32
              const float* v);  // [kv_heads, head_dim] fp32

/// Ops::quantise_rows and Ops::gemm_quantised of AVX2, for AVX-512 too.
void quantise_rows_avx2(const float* x, std::int64_t ldx, std::int64_t row_begin,
                        std::int64_t row_end, const QuantRows& to);
void gemm_quantised_avx2(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                         const QuantRows& x, std::int64_t row_begin, std::int64_t rows, float* y,
                         std::int64_t ldy);
/// Ops::gemm_quantised where AVX-512 has VNNI.
void gemm_quantised_vnni(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                         const QuantRows& x, std::int64_t row_begin, std::int64_t rows, float* y,
                         std::int64_t ldy);

/// Ops::round_rows and Ops::gemm_rounded where AVX-512 has VDPBF16PS (bf16_dot_supported).
void round_rows_bf16(const float* x, std::int64_t ldx, std::int64_t row_begin, std::int64_t row_end,
                     const RoundedRows& to);
void gemm_rounded_bf16(const PackedMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                       const RoundedRows& x, std::int64_t row_begin, std::int64_t rows, float* y,
                       std::int64_t ldy);

/// Ops::attention and Ops::attention_range where AVX-512 has BF16.
void attention_dot(const AttentionArgs& args);
void attention_range_dot(const AttentionArgs& args, std::int64_t range, float* partial);

extern const Ops kPortable;
extern const Ops kAvx2;
extern const Ops kAvx512;

}  // namespace cairn::kernels::shared
