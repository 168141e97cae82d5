// SPDX-License-Identifier: Apache-2.0
// Facts, checks and times of a device. docs/gpu.md says what is measured and how.
//
// usage: gpu_check [--seconds N] [--json FILE] [--only TEXT]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

#include "tests/gpu_check/parts.hpp"

namespace cairn::gpu_check {
namespace {

struct Options {
  double seconds = 300;
  std::string json = "gpu_check.json";
  std::string only;  // parts whose name has it
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return false;
    if (name == "--seconds") {
      char* end = nullptr;
      options.seconds = std::strtod(argv[i + 1], &end);
      if (*end != '\0' || !(options.seconds > 0)) return false;
    } else if (name == "--json") {
      options.json = argv[i + 1];
    } else if (name == "--only") {
      options.only = argv[i + 1];
    } else {
      return false;
    }
  }
  return true;
}

std::vector<Part> chosen(const std::string& only) {
  std::vector<Part> parts = all_parts();
  const std::string first = parts.front().name;  // says whether there is a device
  std::erase_if(parts, [&](const Part& part) {
    return part.name != first && part.name.find(only) == std::string::npos;
  });
  return parts;
}

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  if (kDryRun) std::printf("dry run: the device is the SIMT harness, times mean nothing\n");
  const std::vector<Row> rows =
      run_parts(chosen(options.only), options.seconds, options.json + ".rows");
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  std::ofstream out(options.json);
  out << document(rows, kDryRun, spent.count());
  out.close();
  if (!out) {
    std::fprintf(stderr, "gpu_check: %s cannot be written\n", options.json.c_str());
    return 1;
  }
  std::vector<Row> failed;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(failed),
               [](const Row& row) { return row.state == State::failed; });
  std::printf("\n%zu rows, %zu failed, %.0f s, written to %s\n", rows.size(), failed.size(),
              spent.count(), options.json.c_str());
  if (!failed.empty()) std::printf("%s", table(failed).c_str());
  return failed.empty() ? 0 : 1;
}

}  // namespace
}  // namespace cairn::gpu_check

int main(int argc, char** argv) {
  cairn::gpu_check::Options options;
  if (!cairn::gpu_check::parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: gpu_check [--seconds N] [--json FILE] [--only TEXT]\n");
    return 2;
  }
  try {
    return cairn::gpu_check::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 1;
  }
}
