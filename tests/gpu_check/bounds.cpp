// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/bounds.hpp"

#include <algorithm>
#include <utility>

namespace cairn::gpu_check {
namespace {

constexpr double kCacheBytes = kDryRun ? 0 : 160e6;  // three times the cache of an H200

}  // namespace

KernelClock::KernelClock(Context& context) : context_(context), stream_(kDevice) {
  lanes_ = 128.0 * kernels::cuda::describe_device(kDevice).multiprocessors;
}

int KernelClock::copies(double bytes) const {
  return 1 + static_cast<int>(std::clamp(kCacheBytes / bytes, 0.0, 63.0));
}

double KernelClock::measured(const char* name) const {
  const auto found = context_.measured.find(name);
  return found == context_.measured.end() ? 0 : found->second;
}

std::pair<double, std::string> KernelClock::bound(const Work& work) const {
  std::pair<double, std::string> most{0, ""};
  const auto take = [&](double amount, double a_microsecond, const char* what) {
    if (amount > 0 && a_microsecond > 0) most = std::max(most, {amount / a_microsecond, what});
  };
  take(work.bytes, 1e3 * measured(kBandwidth), "of reading speed");
  take(work.matrix_ops, 1e6 * measured(kMatrixRate), "of the matrix rate");
  take(work.lane_ops, lanes_ * measured(kClock), "of the fp32 lanes");
  return most;
}

void KernelClock::measure(const std::string& name, const Work& work, int launches,
                          const std::function<void(int)>& queue) {
  if (!context_.has_time(0.5, name)) return;
  if (kDryRun) launches = 1;
  queue(0);  // loads its code, which a capture does not take
  stream_.finish();
  const kernels::cuda::Graph graph(stream_, [&] {
    for (int i = 0; i < launches; ++i) queue(i);
  });
  const double ms = best_ms(stream_, kDryRun ? 1 : 5, [&] { graph.launch(stream_); });
  const double us = 1000 * ms / launches;
  const auto [least, what] = bound(work);
  if (what.empty()) {
    context_.report.measured(name, us, "us", "the device's speed was not measured");
  } else {
    context_.report.share(name, us, "us", least / us, what);
  }
}

void measure_kernels(Context& context) {
  KernelClock clock(context);
  measure_projections(clock);
  measure_recurrence(clock);
  measure_attention(clock);
  measure_pointwise(clock);
  measure_sampling(clock);
}

}  // namespace cairn::gpu_check
