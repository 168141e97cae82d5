// SPDX-License-Identifier: Apache-2.0
// What the control groups of this process leave it (Linux, versions 1 and 2, nested).
#pragma once

#include <cstdint>
#include <string>

namespace cairn::model {

/// The least of what the process's group and those around it say, as far as they can be seen.
struct ContainerLimits {
  std::uint64_t memory = UINT64_MAX;       // bytes allowed; the largest number: no limit
  std::uint64_t memory_left = UINT64_MAX;  // of them, pages of files that would be given back too
  double processors = 0;                   // 0: no limit
};

/// `root` goes before /proc and /sys.
ContainerLimits container_limits(const std::string& root = "");

}  // namespace cairn::model
