// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/parts.hpp"

#include <set>

#include "tests/gpu_check/device/runner.hpp"
#include "tests/gpu_check/model.hpp"

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
  const auto weights = [] { served_weights(); };  // made once: each process has them from here
  const std::vector<Part> rest = {
      {"exactness", 80, 10, true, check_exactness, weights},
      {"kernels", 30, 5, false, measure_kernels},
      {"speed", 60, 10, false, measure_speed, weights},
      {"exactness of int8", 60, 20, true, check_exactness_int8, weights},
      {"exactness of cuBLASLt", 60, 20, true, check_exactness_cublaslt, weights},
      {"speed of int8", 30, 10, false, measure_speed_int8, weights},
      {"speed of cuBLASLt", 30, 10, false, measure_speed_cublaslt, weights},
  };
  parts.insert(parts.end(), rest.begin(), rest.end());
  return parts;
}

}  // namespace cairn::gpu_check
