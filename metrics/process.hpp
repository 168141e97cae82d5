// SPDX-License-Identifier: Apache-2.0
// What the operating system says about this process, under the names every Prometheus exporter
// uses.
#pragma once

#include <vector>

namespace cairn::metrics {

struct ProcessSample {
  const char* name = nullptr;
  const char* help = nullptr;
  bool counter = false;
  double value = 0;
};

/// Empty where /proc is not there.
std::vector<ProcessSample> sample_process();

}  // namespace cairn::metrics
