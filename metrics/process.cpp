// SPDX-License-Identifier: Apache-2.0
#include "metrics/process.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace cairn::metrics {
namespace {

// Fields of /proc/self/stat counted from 1, as proc(5) does; the first two (pid and name) are cut
// off.
constexpr int kUserTicks = 14;
constexpr int kSystemTicks = 15;
constexpr int kStartTicks = 22;
constexpr int kVirtualBytes = 23;
constexpr int kResidentPages = 24;

std::vector<double> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  std::vector<double> fields(3,
                             0.0);  // so that fields[i] is field i; the state letter is read as 0
  std::string word;
  rest >> word;
  fields.push_back(0);
  for (double value = 0; rest >> value;) fields.push_back(value);
  return fields;
}

double boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime" && file >> value) return value;
    file.ignore(1 << 20, '\n');
  }
  return 0;
}

double open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator folder("/proc/self/fd", error);
  if (error) return 0;
  return static_cast<double>(std::distance(begin(folder), std::filesystem::directory_iterator{}));
}

}  // namespace

std::vector<ProcessSample> sample_process() {
  const auto stat = stat_fields();
  if (stat.size() <= kResidentPages) return {};
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  static const double boot = boot_time();
  return {
      {"process_cpu_seconds_total", "User and system CPU time.", true,
       (stat[kUserTicks] + stat[kSystemTicks]) / ticks},
      {"process_start_time_seconds", "When the process started, as Unix time.", false,
       boot + stat[kStartTicks] / ticks},
      {"process_virtual_memory_bytes", "Address space in use.", false, stat[kVirtualBytes]},
      {"process_resident_memory_bytes", "Memory in use.", false, stat[kResidentPages] * page},
      {"process_open_fds", "Open file descriptors.", false, open_files()},
  };
}

}  // namespace cairn::metrics
