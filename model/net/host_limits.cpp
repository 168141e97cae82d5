// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>

#include "base/check.hpp"
#include "kernels/cpu/ops.hpp"
#include "model/net/container_limits.hpp"
#include "model/net/host_limits.hpp"

namespace cairn::model {
namespace {

// Cores among the processors this process may run on: siblings of one core share a list.
int allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    cores.insert(siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

// The number after `key` in a file of "key number" lines; 0 when there is none.
std::uint64_t number_after(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  while (file >> word) {
    if (word == key && file >> value) return value;
  }
  return 0;
}

std::uint64_t system_memory(const char* key) { return 1024 * number_after("/proc/meminfo", key); }

}  // namespace

int default_threads() {
  const int cores = allowed_cores();
  const double quota = container_limits().processors;
  if (quota <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(quota)), 1, cores);
}

std::uint64_t available_memory() {
  const std::uint64_t system = system_memory("MemAvailable:");
  return system == 0 ? 0 : std::min(system, container_limits().memory_left);
}

std::uint64_t allowed_memory() {
  return std::min(system_memory("MemTotal:"), container_limits().memory);
}

const kernels::Ops& ops_for(const std::string& isa) {
  const Result<kernels::Isa> chosen = kernels::choose_isa(isa);
  if (!chosen.ok()) throw DeviceError(chosen.error().message);
  return kernels::ops(chosen.value());
}

}  // namespace cairn::model
