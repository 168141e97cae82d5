// SPDX-License-Identifier: Apache-2.0
// Four launches, each a pass over the logits by blocks of 1,024 ids; the last block of a row to
// finish goes on with what needs the whole row. All of it is whole numbers: no order matters.
#pragma once

#include "kernels/cuda/block_scan.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/sampling.hpp"
#include "kernels/cuda/vec.cuh"
#include "kernels/sampling.hpp"

namespace cairn::kernels::cuda {

constexpr int kSampleThreads = 256;
constexpr int kSampleSlice = 4 * kSampleThreads;  // ids of a block
/// Candidates of a cut that are listed; with more the row itself is searched.
constexpr std::int32_t kSampleList = 16384;

/// What the blocks of a row share. 0 between calls.
struct SampleCounters {
  Word best = 0;         // highest rank so far
  unsigned arrived = 0;  // blocks; 0 between launches
  unsigned unfit = 0;    // blocks with a logit that is not finite
  unsigned listed = 0;   // candidates
};

/// What launches leave for the next ones.
struct SampleState {
  Word top = 0;  // the highest rank
  Word cut = 0;  // the lowest rank kept
  unsigned candidates = 0;
  // Where the first `top_k` ranks end: their bin, what it takes of it, weights of the bins before.
  std::int32_t k_bin = 0;
  std::int32_t k_left = 0;
  Word k_before = 0;
  // Where the nucleus may end, with the weight of the bins before. `total` is that of all ids.
  std::int32_t first_bin = 0;
  std::int32_t last_bin = 0;
  Word p_before = 0;
  Word total = 0;
};

/// Arguments of the launches: the call's, and the parts of its scratch.
struct SampleLaunch {
  SampleArgs call;
  std::int32_t slices = 0;
  std::int64_t adjusted_ld = 0;
  SampleCounters* counters = nullptr;  // [rows]
  SampleState* states = nullptr;       // [rows]
  unsigned* counts = nullptr;          // [rows, kRankBins], 0 between calls
  Word* bin_sums = nullptr;            // [rows, kRankBins], 0 between calls
  Word* sums = nullptr;                // [rows, slices]
  Word* lists = nullptr;               // [rows, kSampleList]
  float* adjusted = nullptr;           // [adjusted, adjusted_ld]
};

/// One row as a block sees it.
struct SampleRowView {
  using V = Vec<float, 4>;

  const SampleLaunch& launch;
  const SampleParams& params;
  SampleCounters& counters;
  SampleState& state;

  static __device__ SampleRowView here(const SampleLaunch& launch) {
    return {launch, launch.call.params[blockIdx.y], launch.counters[blockIdx.y],
            launch.states[blockIdx.y]};
  }

  __device__ bool padding() const { return params.row < 0; }
  __device__ bool cuts() const { return params.top_k > 0 || params.nucleus != 0; }
  __device__ bool drawn(float max) const { return draws(params.inverse_temperature, max); }
  /// This thread's first id in a slice.
  static __device__ std::int32_t first_id(std::int32_t slice) {
    return slice * kSampleSlice + 4 * static_cast<std::int32_t>(threadIdx.x);
  }
  __device__ bool has(std::int32_t id) const { return id < launch.call.vocab; }

  __device__ const float* raw() const { return launch.call.logits + params.row * launch.call.ld; }
  __device__ const float* values() const {
    return params.adjusted < 0 ? raw() : launch.adjusted + params.adjusted * launch.adjusted_ld;
  }
  /// Four values from an id on; past the vocabulary they are padding.
  __device__ V four(const float* row, std::int32_t id) const {
    return has(id) ? load_read_only(reinterpret_cast<const V*>(row + id)) : V{};
  }

  __device__ Word weight(float x, float max, float min_p) const {
    return weight_of(exp_f32(weight_exponent(x, max, params.inverse_temperature)), min_p);
  }
  /// Of id, if its rank is kept and it exists.
  __device__ Word kept_weight(float x, std::int32_t id, float max, Word cut) const {
    if (!has(id) || rank_of(x, id) < cut) return 0;
    return weight(x, max, params.min_p);
  }
  __device__ Word* slice_sums() const {
    return launch.sums + static_cast<std::int64_t>(blockIdx.y) * launch.slices;
  }
};

/// The token of one row from the sums of its slices. All threads of the block.
struct SampleDraw {
  struct Shared {
    Word warps[kSampleThreads / 32];
    Word left;
    std::int32_t slice;
  };

  static __device__ void run(const SampleRowView& row, float max, Word cut, Shared& shared) {
    const std::int32_t slices = row.launch.slices;
    const std::int32_t per_thread = (slices + kSampleThreads - 1) / kSampleThreads;
    const std::int32_t begin = per_thread * static_cast<std::int32_t>(threadIdx.x);
    const std::int32_t end = begin + per_thread < slices ? begin + per_thread : slices;
    const Word* sums = row.slice_sums();
    Word mine = 0;
    for (std::int32_t s = begin; s < end; ++s) mine += load_global(&sums[s]);
    const ScannedWord of_slices = scan_block<kSampleThreads>(mine, shared.warps);
    const SampleParams& p = row.params;
    const Word target = multiply_high(of_slices.total, sampling_random(p.seed, p.choice, p.index));
    if (target >= of_slices.before && target - of_slices.before < mine) {
      Word left = target - of_slices.before;
      std::int32_t s = begin;
      for (Word sum = 0; left >= (sum = load_global(&sums[s])); ++s) left -= sum;
      shared.slice = s;
      shared.left = left;
    }
    __syncthreads();
    const std::int32_t id = row.first_id(shared.slice);
    const auto x = row.four(row.values(), id);
    Word w[4];
    Word sum = 0;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) sum += w[j] = row.kept_weight(x.lane[j], id + j, max, cut);
    Word left = shared.left;
    const Word before = scan_block<kSampleThreads>(sum, shared.warps).before;
    if (left < before || left - before >= sum) return;
    left -= before;
    std::int32_t j = 0;
    CAIRN_UNROLL
    for (int i = 0; i < 3; ++i) {
      if (j != i || left < w[i]) continue;
      left -= w[i];
      ++j;
    }
    row.launch.call.out[blockIdx.y].token = id + j;
  }
};

/// Biases and penalties into a copy, the highest rank, and whether all logits are finite. Rows that
/// are not drawn have their token then.
struct SampleScan {
  using Args = SampleLaunch;
  using V = SampleRowView::V;
  static constexpr const char* kName = "sample_scan";
  static constexpr int kThreads = kSampleThreads;
  struct alignas(16) Shared {
    float slice[kSampleSlice];
    Word warps[kSampleThreads / 32];
  };

  static __device__ void run(const Args& a, Shared& shared) {
    const SampleRowView row = SampleRowView::here(a);
    if (row.padding()) return;
    const std::int32_t id = row.first_id(static_cast<std::int32_t>(blockIdx.x));
    V x = row.four(row.raw(), id);
    bool unfit = false;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      unfit |= row.has(id + j) && (float_bits(x.lane[j]) & 0x7f800000U) == 0x7f800000U;
    }
    if (row.params.adjusted >= 0) x = adjust(row, x, id, shared);
    Word best = 0;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      const Word rank = row.has(id + j) ? rank_of(x.lane[j], id + j) : 0;
      best = rank > best ? rank : best;
    }
    best = max_block<kThreads>(best, shared.warps);
    const int unfits = __syncthreads_count(unfit ? 1 : 0);
    if (threadIdx.x == 0) finish(row, best, unfits > 0);
  }

 private:
  static __device__ V adjust(const SampleRowView& row, V x, std::int32_t id, Shared& shared) {
    const SampleEntry* entries = row.launch.call.entries;
    const SampleParams& p = row.params;
    const std::int32_t begin = static_cast<std::int32_t>(blockIdx.x) * kSampleSlice;
    const auto mine = [&](std::int32_t of) {
      return of >= begin && of - begin < kSampleSlice && row.has(of);
    };
    const auto thread = static_cast<std::int32_t>(threadIdx.x);
    store_shared(reinterpret_cast<V*>(&shared.slice[4 * thread]), x);
    __syncthreads();
    for (std::int32_t i = p.bias_begin + thread; i < p.bias_end; i += kThreads) {
      const SampleEntry first = load_read_only(&entries[i]);
      if (!mine(first.id)) continue;
      // One thread adds all of an id.
      if (i > p.bias_begin && load_read_only(&entries[i - 1]).id == first.id) continue;
      float* at = &shared.slice[first.id - begin];
      float value = load_shared(at) + bits_float(first.value);
      for (std::int32_t n = i + 1; n < p.bias_end; ++n) {
        const SampleEntry next = load_read_only(&entries[n]);
        if (next.id != first.id) break;
        value = value + bits_float(next.value);
      }
      store_shared(at, value);
    }
    __syncthreads();
    for (std::int32_t i = p.seen_begin + thread; i < p.seen_end; i += kThreads) {
      const SampleEntry seen = load_read_only(&entries[i]);
      if (!mine(seen.id)) continue;
      float* at = &shared.slice[seen.id - begin];
      store_shared(at, penalised(load_shared(at), p.repetition, p.frequency, p.presence,
                                 static_cast<std::int32_t>(seen.value)));
    }
    __syncthreads();
    x = load_shared(reinterpret_cast<const V*>(&shared.slice[4 * thread]));
    float* copy = row.launch.adjusted + p.adjusted * row.launch.adjusted_ld;
    if (row.has(id)) store_global(reinterpret_cast<V*>(copy + id), x);
    return x;
  }

  // One thread of each block.
  static __device__ void finish(const SampleRowView& row, Word best, bool unfit) {
    SampleCounters& counters = row.counters;
    atomicMax(&counters.best, best);
    if (unfit) atomicAdd(&counters.unfit, 1U);
    __threadfence();
    if (atomicAdd(&counters.arrived, 1U) != static_cast<unsigned>(row.launch.slices) - 1) return;
    __threadfence();  // what the others added before they arrived
    atomicExch(&counters.arrived, 0U);
    const Word top = atomicExch(&counters.best, Word{0});
    store_global(&row.state.top, top);
    Sampled& out = row.launch.call.out[blockIdx.y];
    out.finite = atomicExch(&counters.unfit, 0U) == 0 ? 1 : 0;
    if (!row.drawn(rank_logit(top))) out.token = rank_id(top);
  }
};

}  // namespace cairn::kernels::cuda
