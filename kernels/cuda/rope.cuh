// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/codegen.hpp"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rope.hpp"
#include "kernels/cuda/vec.cuh"

namespace cairn::kernels::cuda {

/// Four lanes a head. Lane t stands for the CPU's lanes 4 t .. 4 t + 3: it holds the elements
/// 16 i + 4 t .. + 3 for every i, so the sum of squares has the CPU's order, and 32 bytes of every
/// four lanes stand together in the narrow outputs.
template <class Element, int kHeadDim, int kRotary>
struct QkRope {
  using Args = QkRopeArgs<Element>;
  static constexpr const char* kName = "qk_rope";
  static constexpr int kThreads = 128;
  static constexpr int kLanes = 4;
  static constexpr int kHeads = kThreads / kLanes;  // a block
  static constexpr int kVectors = kHeadDim / 16;
  static constexpr int kHalf = kRotary / 2;
  using V = Vec<float, 4>;
  static_assert(kHalf % 16 == 0 || kHalf == 4 || kHalf == 8);

  static __device__ void run(const Args& a) {
    const std::int64_t index =
        static_cast<std::int64_t>(blockIdx.x) * kHeads + threadIdx.x / kLanes;
    const std::int32_t heads = a.heads + 2 * a.kv.kv_heads;
    const std::int64_t row = index / heads;
    const auto head = static_cast<std::int32_t>(index % heads);
    // Groups without a head work on zeros: the shuffles need whole warps.
    const std::int32_t position = row < a.rows ? load_read_only(a.positions + row) : -1;
    const bool live = position >= 0;
    const bool query = head < a.heads;
    const bool value = head >= a.heads + a.kv.kv_heads;
    V x[kVectors] = {};
    if (live) load(source(a, row, head), x);
    if (!value) scale_to_norm(a.eps, x);
    if (live && !value) weight(query ? a.q_norm : a.k_norm, x);
    // Every lane takes part in the exchange; values keep what they were.
    rotate(a, live && !value ? position : -1, x);
    if (live) store(destination(a, row, head, position), x);
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ int offset(int i) { return 16 * i + 4 * lane(); }

  static __device__ const float* source(const Args& a, std::int64_t row, std::int32_t head) {
    if (head < a.heads) return a.q + row * a.ld + head * a.q_head_stride;
    const std::int32_t kv_head = head - a.heads;
    const bool value = kv_head >= a.kv.kv_heads;
    return (value ? a.v : a.k) + row * a.ld +
           static_cast<std::int64_t>(value ? kv_head - a.kv.kv_heads : kv_head) * kHeadDim;
  }

  static __device__ Element* destination(const Args& a, std::int64_t row, std::int32_t head,
                                         std::int32_t position) {
    if (head < a.heads) return a.q_out + (row * a.heads + head) * kHeadDim;
    const std::int64_t sequence = load_read_only(a.sequence + row);
    const std::int64_t block =
        load_read_only(a.kv.tables + sequence * a.kv.table_stride + position / kKvBlockTokens);
    // Heads past the keys' are the values'.
    return a.kv.keys(block, head - a.heads) +
           static_cast<std::int64_t>(position % kKvBlockTokens) * kHeadDim;
  }

  static __device__ void load(const float* from, V (&x)[kVectors]) {
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      x[i] = load_read_only(reinterpret_cast<const V*>(from + offset(i)));
    }
  }

  static __device__ void store(Element* to, const V (&x)[kVectors]) {
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      store_global(reinterpret_cast<Vec<Element, 4>*>(to + offset(i)), narrow<Element>(x[i]));
    }
  }

  /// The CPU's order: sixteen lanes, elements ascending, then halves: j + (j + 8) lies two of our
  /// lanes away, j + (j + 4) one, the rest inside a lane.
  static __device__ float sum_squares(const V (&x)[kVectors]) {
    V sum{};
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) sum.lane[j] = fma_rn(x[i].lane[j], x[i].lane[j], sum.lane[j]);
    }
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) sum.lane[j] = sum_lanes<kLanes>(sum.lane[j]);
    return (sum.lane[0] + sum.lane[2]) + (sum.lane[1] + sum.lane[3]);
  }

  static __device__ void scale_to_norm(float eps, V (&x)[kVectors]) {
    const float scale = inverse_root(sum_squares(x) / static_cast<float>(kHeadDim) + eps);
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) x[i].lane[j] = x[i].lane[j] * scale;
    }
  }

  static __device__ void weight(const float* w, V (&x)[kVectors]) {
    CAIRN_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const V by = load_read_only(reinterpret_cast<const V*>(w + offset(i)));
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) x[i].lane[j] = x[i].lane[j] * (1.0F + by.lane[j]);
    }
  }

  static __device__ void turn(float& first, float& second, float c, float s) {
    const float a = first;
    const float b = second;
    first = fma_rn(a, c, -(b * s));
    second = fma_rn(b, c, a * s);
  }

  static __device__ V angles(const float* table, std::int64_t position, int first) {
    return load_read_only(reinterpret_cast<const V*>(table + position * kHalf + first));
  }

  /// Below position 0 nothing is turned.
  static __device__ void rotate(const Args& a, std::int32_t position, V (&x)[kVectors]) {
    if constexpr (kHalf % 16 == 0) {
      if (position < 0) return;
      CAIRN_UNROLL
      for (int i = 0; i < kHalf / 16; ++i) {
        const V c = angles(a.cos, position, offset(i));
        const V s = angles(a.sin, position, offset(i));
        CAIRN_UNROLL
        for (int j = 0; j < 4; ++j) {
          turn(x[i].lane[j], x[i + kHalf / 16].lane[j], c.lane[j], s.lane[j]);
        }
      }
    } else {
      // The other half of each pair lies in a neighbour lane.
      constexpr int kApart = kHalf / 4;
      V other;
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) other.lane[j] = __shfl_xor_sync(kFullMask, x[0].lane[j], kApart);
      if (position < 0 || 4 * lane() >= kRotary) return;
      const int at = 4 * lane() % kHalf;
      const V c = angles(a.cos, position, at);
      const V s = angles(a.sin, position, at);
      const bool low = lane() < kApart;
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) {
        float first = low ? x[0].lane[j] : other.lane[j];
        float second = low ? other.lane[j] : x[0].lane[j];
        turn(first, second, c.lane[j], s.lane[j]);
        x[0].lane[j] = low ? first : second;
      }
    }
  }
};

}  // namespace cairn::kernels::cuda
