// SPDX-License-Identifier: Apache-2.0
// The parts of gpu_check. Each runs in a process of its own, so that one that crashes, hangs or
// poisons its device takes no other with it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu_check/report.hpp"

namespace cairn::gpu_check {

/// Whether the device is the harness: everything tiny, times without meaning.
#if defined(CAIRN_DRY_RUN)
inline constexpr bool kDryRun = true;
#else
inline constexpr bool kDryRun = false;
#endif

/// What earlier parts measured, by the row's name.
using Measured = std::map<std::string, double>;
inline constexpr const char* kBandwidth = "read bandwidth";  // GB/s
inline constexpr const char* kMatrixRate = "matrix rate";    // TFLOP/s
inline constexpr const char* kClock = "clock under load";    // MHz

struct Context {
  Report& report;
  std::chrono::steady_clock::time_point deadline;
  Measured measured;

  double seconds_left() const {
    const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
    return left.count();
  }
  /// False, and a row that says so, when `what` would not end in time.
  bool has_time(double seconds, const std::string& what) const;
};

struct Part {
  std::string name;
  double seconds = 0;     // it may take
  double least = 0;       // it is not begun with less left
  bool is_check = false;  // not ending in time is a failure
  std::function<void(Context&)> run;
  std::function<void()> prepare = {};  // before its process begins, which finds what this made
};

/// In the order in which they run: what decides first, then what is only nice to know.
std::vector<Part> all_parts();

void describe(Context& context);
void measure_graph_latency(Context& context);
void measure_bandwidth(Context& context);
void measure_matrix_rate(Context& context);
void check_gemm_rows(Context& context);
void check_cublaslt(Context& context);
void run_tests(Context& context, const std::string& subject);
void measure_kernels(Context& context);
void check_exactness(Context& context);
void check_exactness_int8(Context& context);
void check_exactness_cublaslt(Context& context);
void measure_speed(Context& context);
void measure_speed_int8(Context& context);
void measure_speed_cublaslt(Context& context);

/// Runs the parts one after another within `seconds`; rows go to `rows_path`. The rows.
std::vector<Row> run_parts(const std::vector<Part>& parts, double seconds,
                           const std::string& rows_path);

}  // namespace cairn::gpu_check
