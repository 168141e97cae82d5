// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "base/check.hpp"
#include "kernels/cpu/ops.hpp"
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

// A container's share of processor time, in processors; 0: no limit.
double cpu_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
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

// What a container's limit leaves; no limit: the largest number.
std::uint64_t container_memory() {
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  std::uint64_t limit = 0;
  std::uint64_t used = 0;
  if (!(limit_file >> limit) || !(used_file >> used)) return UINT64_MAX;
  // Cached file pages count as used but are given back.
  const std::uint64_t cached = number_after("/sys/fs/cgroup/memory.stat", "inactive_file");
  used -= std::min(used, cached);
  return limit - std::min(limit, used);
}

}  // namespace

int default_threads() {
  const int cores = allowed_cores();
  const double quota = cpu_quota();
  if (quota <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(quota)), 1, cores);
}

std::uint64_t available_memory() {
  const std::uint64_t system = 1024 * number_after("/proc/meminfo", "MemAvailable:");
  return system == 0 ? 0 : std::min(system, container_memory());
}

const kernels::Ops& ops_for(const std::string& isa) {
  const Result<kernels::Isa> chosen = kernels::choose_isa(isa);
  if (!chosen.ok()) throw DeviceError(chosen.error().message);
  return kernels::ops(chosen.value());
}

}  // namespace cairn::model
