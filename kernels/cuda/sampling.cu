// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "kernels/cuda/sampling.cuh"
#include "kernels/cuda/sampling_cut.cuh"

namespace cairn::kernels::cuda {
namespace {

std::int32_t slices_of(std::int32_t vocab) {
  return static_cast<std::int32_t>(ceil_div(vocab, kSampleSlice));
}

/// Hands out the parts of the scratch, those that are zero between calls first.
class Parts {
 public:
  explicit Parts(const SampleScratch& scratch) : data_(scratch.data) {}

  template <class T>
  T* take(std::int64_t count) {
    constexpr std::size_t kAlignment = 256;
    std::byte* at = data_ == nullptr ? nullptr : data_ + used_;
    used_ += static_cast<std::size_t>(count) * sizeof(T);
    used_ = (used_ + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* data_;
  std::size_t used_ = 0;
};

void take_zeros(const SampleScratch& scratch, Parts& parts, SampleLaunch& out) {
  const std::int64_t rows = scratch.rows;
  out.counters = parts.take<SampleCounters>(rows);
  out.counts = parts.take<unsigned>(rows * kRankBins);
  out.bin_sums = parts.take<Word>(rows * kRankBins);
}

void take_rest(const SampleScratch& scratch, Parts& parts, SampleLaunch& out) {
  const std::int64_t rows = scratch.rows;
  const std::int64_t slices = slices_of(scratch.vocab);
  out.states = parts.take<SampleState>(rows);
  out.sums = parts.take<Word>(rows * slices);
  out.lists = parts.take<Word>(rows * kSampleList);
  out.adjusted_ld = slices * kSampleSlice;
  out.adjusted = parts.take<float>(scratch.adjusted * out.adjusted_ld);
}

}  // namespace

std::size_t SampleScratch::zero_bytes() const {
  Parts parts(*this);
  SampleLaunch ignored;
  take_zeros(*this, parts, ignored);
  return parts.used();
}

std::size_t SampleScratch::bytes() const {
  Parts parts(*this);
  SampleLaunch ignored;
  take_zeros(*this, parts, ignored);
  take_rest(*this, parts, ignored);
  return parts.used();
}

Grid sample_grid(const SampleArgs& args) { return {slices_of(args.vocab), args.rows}; }

void sample(Stream stream, const SampleArgs& args) {
  check(args.vocab > 0 && args.vocab <= kMaxSampledVocab, "sample: as many ids as weights add up");
  check(args.ld % 4 == 0 && args.ld >= args.vocab, "sample: ld is a multiple of 4 beyond vocab");
  check(args.rows <= args.scratch.rows && args.vocab <= args.scratch.vocab &&
            args.plan.adjusted <= args.scratch.adjusted,
        "sample: the scratch is too small");
  SampleLaunch launch;
  launch.call = args;
  launch.slices = slices_of(args.vocab);
  Parts parts(args.scratch);
  take_zeros(args.scratch, parts, launch);
  take_rest(args.scratch, parts, launch);
  const Grid grid = sample_grid(args);
  cuda::launch<SampleScan>(grid, stream, launch);
  if (args.plan.draws) cuda::launch<SampleWeigh>(grid, stream, launch);
  if (!args.plan.draws || !args.plan.cuts) return;
  cuda::launch<SampleCut>(grid, stream, launch);
  cuda::launch<SampleKeep>(grid, stream, launch);
}

}  // namespace cairn::kernels::cuda
