// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/parts.hpp"

#include <set>

#include "tests/gpu_check/device/runner.hpp"

namespace cairn::gpu_check {

std::vector<Part> all_parts() {
  std::vector<Part> parts = {
      {"device", 20, 1, true, describe},
      {"rows of our GEMM", 40, 5, true, check_gemm_rows},
      {"rows of cuBLASLt", 30, 5, false, check_cublaslt},
      {"graphs and launches", 10, 3, false, measure_graph_latency},
      {"bandwidth", 15, 3, false, measure_bandwidth},
      {"matrix rate", 10, 3, false, measure_matrix_rate},
  };
  std::set<std::string> subjects;
  for (const testing::Test& test : testing::all_tests()) subjects.insert(test.subject);
  for (const std::string& subject : subjects) {
    parts.push_back({"tests: " + subject, 30, 3, true,
                     [subject](Context& context) { run_tests(context, subject); }});
  }
  parts.push_back({"kernels", 40, 5, false, measure_kernels});
  return parts;
}

}  // namespace cairn::gpu_check
