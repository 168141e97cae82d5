// SPDX-License-Identifier: Apache-2.0
// A kernel's time beside the least that its bytes and operations take on this device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/gpu_check/parts.hpp"
#include "tests/gpu_check/timing.hpp"

namespace cairn::gpu_check {

struct Work {
  double bytes = 0;       // to and from memory, each once
  double matrix_ops = 0;  // of tensor cores, a product and a sum being two
  double lane_ops = 0;    // of fp32 lanes, a fused product and sum being one
};

/// Measures in graphs, so that launches cost what they cost a decode step.
class KernelClock {
 public:
  explicit KernelClock(Context& context);

  /// Adds a row. `queue(i)` puts the i-th launch on the stream; launches in a row should read other
  /// memory than the one before, or the second-level cache answers.
  void measure(const std::string& name, const Work& work, int launches,
               const std::function<void(int)>& queue);

  kernels::cuda::WorkStream& stream() { return stream_; }
  /// Copies of `bytes` that are no longer cached when their turn comes again.
  int copies(double bytes) const;

 private:
  /// The least microseconds, and what takes them.
  std::pair<double, std::string> bound(const Work& work) const;
  double measured(const char* name) const;

  Context& context_;
  kernels::cuda::WorkStream stream_;
  double lanes_ = 0;  // fp32 lanes of the device
};

void measure_projections(KernelClock& clock);
void measure_recurrence(KernelClock& clock);
void measure_attention(KernelClock& clock);
void measure_pointwise(KernelClock& clock);
void measure_sampling(KernelClock& clock);

/// Rows of a long prefill.
inline constexpr std::int64_t kPrefillRows = kDryRun ? 17 : 2048;

}  // namespace cairn::gpu_check
