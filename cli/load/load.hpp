// SPDX-License-Identifier: Apache-2.0
// A load on a running server: the same requests in several passes, measured and compared.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "cli/load/report.hpp"
#include "cli/load/runner.hpp"

namespace cairn::load {

enum class Drop : std::uint8_t { never, first, each };  // the server's cache, before which pass

struct LoadOptions {
  std::string url;  // "http://host[:port]"
  std::string api_key, admin_key;
  WorkloadOptions workload;  // vocabulary 0: what the server says
  AskOptions ask;
  RunLimits limits;          // of each pass
  std::int64_t warm_up = 0;  // requests before each pass, one at a time, not measured
  int passes = 2;
  Drop drop = Drop::never;
  /// What single requests may take; figures beyond that are of sums and distributions.
  std::uint64_t memory_bytes = std::uint64_t{1} << 30U;
};

using LoadProgress = std::function<void(int pass, const RunProgress&)>;

/// Throws LoadError where nothing can be sent: the server does not answer, prompts would not fit
/// its context, its cache cannot be dropped. What goes wrong later is in the report
/// (Report::ended). Blocks.
Report run_load(const LoadOptions& options, const std::atomic<bool>& stop,
                const LoadProgress& progress = {});

}  // namespace cairn::load
