// SPDX-License-Identifier: Apache-2.0
// Times by the device's clock.
#pragma once

#include <algorithm>
#include <functional>

#include "kernels/cuda/device.hpp"

namespace cairn::gpu_check {

/// All of gpu_check is about one device, the first.
inline constexpr int kDevice = 0;

/// Milliseconds from the beginning of what `queue` puts on the stream to its end; the best of
/// `rounds`, after one that is not counted.
inline double best_ms(kernels::cuda::WorkStream& stream, int rounds,
                      const std::function<void()>& queue) {
  kernels::cuda::Event begin(kDevice), end(kDevice);
  double best = 1e9;
  for (int i = 0; i <= rounds; ++i) {
    begin.record(stream.get());
    queue();
    end.record(stream.get());
    end.wait();
    if (i > 0) best = std::min(best, static_cast<double>(end.milliseconds_since(begin)));
  }
  return best;
}

}  // namespace cairn::gpu_check
