// SPDX-License-Identifier: Apache-2.0
// Weights, top-k and top-p. Ranks are told apart by bins first (rank_bin); the ids of the bins
// where a run of highest ranks may end are then listed and searched digit by digit.
#pragma once

#include "kernels/cuda/sampling.cuh"
#include "kernels/cuda/sampling_search.cuh"

namespace cairn::kernels::cuda {

/// The bins of one row, ascending: falling ranks.
struct SampleBins {
  static constexpr int kPerThread = kRankBins / kSampleThreads;

  struct Shared {
    Word warps[kSampleThreads / 32];
    std::int32_t k_bin;
    std::int32_t k_left;
    Word k_before;
    Word k_sum;
    std::int32_t p_bin[2];
    Word p_before[2];
    Word p_counted[2];  // ids of the bins before the first, and up to the last
    unsigned k_count;
  };

  /// Finds where top-k ends and where the nucleus may, with the bins' counts and sums of all ids,
  /// and zeroes those. All threads of the block.
  static __device__ void run(const SampleRowView& row, Shared& shared) {
    SampleBins bins;
    bins.take(row);
    const SampleParams& p = row.params;
    const ScannedWord counts = scan_block<kSampleThreads>(sum(bins.count), shared.warps);
    const ScannedWord sums = scan_block<kSampleThreads>(sum(bins.weight), shared.warps);
    if (p.top_k > 0) {
      const Word last = static_cast<Word>(p.top_k) - 1;
      if (last >= counts.before && last - counts.before < sum(bins.count)) {
        bins.end_top_k(last - counts.before, sums.before, shared);
      }
    }
    __syncthreads();
    // What top-k keeps weighs between these: its share of a bin is not known yet.
    const Word low = p.top_k > 0 ? shared.k_before : sums.total;
    const Word high = p.top_k > 0 ? shared.k_before + shared.k_sum : sums.total;
    if (p.nucleus != 0) {
      for (int end = 0; end < 2; ++end) {
        const Word last = nucleus_target(end == 0 ? low : high, p.top_p) - 1;
        if (last >= sums.before && last - sums.before < sum(bins.weight)) {
          bins.end_nucleus(end, last, counts.before, sums.before, shared);
        }
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) leave(row, sums.total, shared);
  }

 private:
  template <class T>
  static __device__ Word sum(const T (&of)[kPerThread]) {
    Word s = 0;
    CAIRN_UNROLL
    for (int i = 0; i < kPerThread; ++i) s += of[i];
    return s;
  }

  __device__ void take(const SampleRowView& row) {
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * kRankBins + first();
    auto* counts = reinterpret_cast<Vec<unsigned, 4>*>(row.launch.counts + at);
    auto* sums = reinterpret_cast<Vec<Word, 2>*>(row.launch.bin_sums + at);
    CAIRN_UNROLL
    for (int i = 0; i < kPerThread / 4; ++i) {
      const auto four = load_global(counts + i);
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) count[4 * i + j] = four.lane[j];
      store_global(counts + i, Vec<unsigned, 4>{});
    }
    CAIRN_UNROLL
    for (int i = 0; i < kPerThread / 2; ++i) {
      const auto two = load_global(sums + i);
      CAIRN_UNROLL
      for (int j = 0; j < 2; ++j) weight[2 * i + j] = two.lane[j];
      store_global(sums + i, Vec<Word, 2>{});
    }
  }

  static __device__ std::int32_t first() {
    return kPerThread * static_cast<std::int32_t>(threadIdx.x);
  }

  __device__ void end_top_k(Word left, Word before, Shared& shared) const {
    CAIRN_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      if (left < count[i]) {
        shared.k_bin = first() + i;
        shared.k_left = static_cast<std::int32_t>(left);
        shared.k_before = before;
        shared.k_sum = weight[i];
        shared.k_count = count[i];
        return;
      }
      left -= count[i];
      before += weight[i];
    }
  }

  __device__ void end_nucleus(int end, Word last, Word counted, Word before, Shared& shared) const {
    CAIRN_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      if (last - before < weight[i]) {
        shared.p_bin[end] = first() + i;
        shared.p_before[end] = before;
        shared.p_counted[end] = counted + (end == 0 ? 0 : count[i]);
        return;
      }
      before += weight[i];
      counted += count[i];
    }
  }

  static __device__ void leave(const SampleRowView& row, Word total, const Shared& shared) {
    SampleState s;
    s.top = load_global(&row.state.top);
    s.total = total;
    s.k_bin = -1;
    s.last_bin = -1;
    if (row.params.top_k > 0) {
      s.k_bin = shared.k_bin;
      s.k_left = shared.k_left;
      s.k_before = shared.k_before;
      s.candidates = shared.k_count;
    }
    if (row.params.nucleus != 0) {
      s.first_bin = shared.p_bin[0];
      s.last_bin = shared.p_bin[1];
      s.p_before = shared.p_before[0];
      const bool inside = s.first_bin <= s.k_bin && s.k_bin <= s.last_bin;
      s.candidates = static_cast<unsigned>(shared.p_counted[1] - shared.p_counted[0]) +
                     (inside ? 0 : s.candidates);
    }
    row.state = s;
  }

  unsigned count[kPerThread];
  Word weight[kPerThread];
};

/// Weights: sums of slices, from which rows without a cut are drawn at once, or sums of bins.
struct SampleWeigh {
  using Args = SampleLaunch;
  static constexpr const char* kName = "sample_weigh";
  static constexpr int kThreads = kSampleThreads;
  // A block's weights in two halves of 20 bits, whose sums stay in the 32 bits of a fast atomic.
  struct alignas(16) Histogram {
    unsigned count[kRankBins];
    unsigned low[kRankBins];
    unsigned high[kRankBins];
  };
  struct alignas(16) Shared {
    Histogram bins;
    union {
      Word warps[kSampleThreads / 32];
      SampleDraw::Shared draw;
      SampleBins::Shared ends;
    };
  };

  static __device__ void run(const Args& a, Shared& shared) {
    const SampleRowView row = SampleRowView::here(a);
    if (row.padding()) return;
    const float max = rank_logit(row.state.top);
    if (!row.drawn(max)) return;
    const auto slice = static_cast<std::int32_t>(blockIdx.x);
    const std::int32_t id = row.first_id(slice);
    const auto x = row.four(row.values(), id);
    if (row.cuts()) {
      fill_bins(row, x, id, max, shared.bins);
    } else {
      Word sum = 0;
      CAIRN_UNROLL
      for (int j = 0; j < 4; ++j) sum += row.kept_weight(x.lane[j], id + j, max, 0);
      sum = scan_block<kThreads>(sum, shared.warps).total;
      if (threadIdx.x == 0) store_global(&row.slice_sums()[slice], sum);
    }
    if (!last_to_arrive(&row.counters.arrived, static_cast<unsigned>(a.slices))) return;
    if (row.cuts()) {
      SampleBins::run(row, shared.ends);
    } else {
      SampleDraw::run(row, max, 0, shared.draw);
    }
  }

 private:
  static __device__ void fill_bins(const SampleRowView& row, const SampleRowView::V& x,
                                   std::int32_t id, float max, Histogram& bins) {
    auto* words = reinterpret_cast<Vec<unsigned, 4>*>(&bins);
    constexpr int kVectors = sizeof bins / sizeof *words;
    for (int i = static_cast<int>(threadIdx.x); i < kVectors; i += kThreads) {
      store_shared(words + i, Vec<unsigned, 4>{});
    }
    __syncthreads();
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (!row.has(id + j)) continue;
      const std::int32_t bin = rank_bin(x.lane[j], max);
      const Word w = row.weight(x.lane[j], max, 0);  // min-p comes after the cuts
      atomicAdd(&bins.count[bin], 1U);
      if (w == 0) continue;
      atomicAdd(&bins.low[bin], static_cast<unsigned>(w) & 0xfffffU);
      atomicAdd(&bins.high[bin], static_cast<unsigned>(w >> 20));
    }
    __syncthreads();
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kRankBins;
    for (int bin = static_cast<int>(threadIdx.x); bin < kRankBins; bin += kThreads) {
      if (bins.count[bin] == 0) continue;
      atomicAdd(row.launch.counts + first + bin, bins.count[bin]);
      const Word sum = (static_cast<Word>(bins.high[bin]) << 20) + bins.low[bin];
      if (sum != 0) atomicAdd(row.launch.bin_sums + first + bin, sum);
    }
  }
};

/// Lists the candidates of a row's cuts, and cuts.
struct SampleCut {
  using Args = SampleLaunch;
  static constexpr const char* kName = "sample_cut";
  static constexpr int kThreads = kSampleThreads;
  struct Shared {
    SampleSearch::Shared search;
    unsigned place;
  };

  static __device__ void run(const Args& a, Shared& shared) {
    const SampleRowView row = SampleRowView::here(a);
    if (row.padding() || !row.cuts()) return;
    const float max = rank_logit(row.state.top);
    if (!row.drawn(max)) return;
    Word* list = a.lists + static_cast<std::int64_t>(blockIdx.y) * kSampleList;
    const bool listed = row.state.candidates <= static_cast<unsigned>(kSampleList);
    if (listed) add(row, max, list, shared);
    if (!last_to_arrive(&row.counters.arrived, static_cast<unsigned>(a.slices))) return;
    const auto count = listed ? static_cast<std::int32_t>(row.state.candidates) : a.call.vocab;
    const Word cut = find_cut(row, max, listed ? list : nullptr, count, shared.search);
    if (threadIdx.x != 0) return;
    store_global(&row.state.cut, cut);
    atomicExch(&row.counters.listed, 0U);
  }

 private:
  static __device__ void add(const SampleRowView& row, float max, Word* list, Shared& shared) {
    const SampleState& s = row.state;
    const std::int32_t id = row.first_id(static_cast<std::int32_t>(blockIdx.x));
    const auto x = row.four(row.values(), id);
    bool taken[4];
    Word mine = 0;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::int32_t bin = rank_bin(x.lane[j], max);
      taken[j] = row.has(id + j) && (bin == s.k_bin || (bin >= s.first_bin && bin <= s.last_bin));
      mine += taken[j] ? 1 : 0;
    }
    if (__syncthreads_count(mine > 0 ? 1 : 0) == 0) return;
    const ScannedWord places = scan_block<kThreads>(mine, shared.search.warps);
    if (threadIdx.x == 0) {
      shared.place = atomicAdd(&row.counters.listed, static_cast<unsigned>(places.total));
    }
    __syncthreads();
    Word* to = list + shared.place + places.before;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (taken[j]) store_global(to++, Word{rank_of(x.lane[j], id + j)});
    }
  }

  static __device__ Word find_cut(const SampleRowView& row, float max, const Word* list,
                                  std::int32_t count, SampleSearch::Shared& shared) {
    const SampleState& s = row.state;
    Word total = s.total;
    Word cut = 0;
    if (s.k_bin >= 0) {
      const SampleSearch search{row, max, s.k_bin, s.k_bin, list, count};
      cut = search.find(
          static_cast<Word>(s.k_left), [](Word) { return Word{1}; }, shared);
      if (row.params.nucleus != 0) total = s.k_before + search.sum_from(cut, shared);
    }
    if (row.params.nucleus == 0) return cut;
    const SampleSearch search{row, max, s.first_bin, s.last_bin, list, count};
    const Word left = nucleus_target(total, row.params.top_p) - 1 - s.p_before;
    return search.find(
        left, [&](Word rank) { return search.weight(rank); }, shared);
  }
};

/// Sums of slices of what the cuts keep; the token.
struct SampleKeep {
  using Args = SampleLaunch;
  static constexpr const char* kName = "sample_keep";
  static constexpr int kThreads = kSampleThreads;
  using Shared = SampleDraw::Shared;

  static __device__ void run(const Args& a, Shared& shared) {
    const SampleRowView row = SampleRowView::here(a);
    if (row.padding() || !row.cuts()) return;
    const float max = rank_logit(row.state.top);
    if (!row.drawn(max)) return;
    const auto slice = static_cast<std::int32_t>(blockIdx.x);
    const std::int32_t id = row.first_id(slice);
    const auto x = row.four(row.values(), id);
    const Word cut = row.state.cut;
    Word sum = 0;
    CAIRN_UNROLL
    for (int j = 0; j < 4; ++j) sum += row.kept_weight(x.lane[j], id + j, max, cut);
    sum = scan_block<kThreads>(sum, shared.warps).total;
    if (threadIdx.x == 0) store_global(&row.slice_sums()[slice], sum);
    if (!last_to_arrive(&row.counters.arrived, static_cast<unsigned>(a.slices))) return;
    SampleDraw::run(row, max, cut, shared);
  }
};

}  // namespace cairn::kernels::cuda
