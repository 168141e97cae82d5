// SPDX-License-Identifier: Apache-2.0
// Files as in the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
#include "model/net/container_limits.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

namespace cairn::model {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62U;  // version 1 says one near 2^63

struct Names {
  const char* limits[2];  // the second may not exist
  const char* used;
  const char* cached[2];  // in memory.stat
};
constexpr Names kSecond{
    {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};
constexpr Names kFirst{{"memory.limit_in_bytes", "memory.limit_in_bytes"},
                       "memory.usage_in_bytes",
                       {"total_inactive_file", "total_active_file"}};

// Nothing for "max" and for no file.
std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::uint64_t bytes_in(const fs::path& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : otherwise;
}

std::uint64_t cached_in(const fs::path& group, const Names& names) {
  std::ifstream file(group / "memory.stat");
  std::string word;
  std::uint64_t value = 0, sum = 0;
  while (file >> word >> value) {
    if (word == names.cached[0] || word == names.cached[1]) sum += value;
  }
  return sum;
}

void add_memory(const fs::path& group, const Names& names, ContainerLimits& limits) {
  std::uint64_t limit = UINT64_MAX;
  for (const char* name : names.limits) limit = std::min(limit, bytes_in(group / name, limit));
  if (limit >= kNoLimit) return;
  std::uint64_t used = bytes_in(group / names.used, 0);
  used -= std::min(used, cached_in(group, names));
  limits.memory = std::min(limits.memory, limit);
  limits.memory_left = std::min(limits.memory_left, limit - std::min(limit, used));
}

void add_processors(std::optional<double> quota, std::optional<double> period,
                    ContainerLimits& limits) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  const double processors = *quota / *period;
  limits.processors = limits.processors == 0 ? processors : std::min(limits.processors, processors);
}

// cpu.max is "QUOTA PERIOD".
void add_processors(const fs::path& group, ContainerLimits& limits) {
  std::ifstream file(group / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return;
  add_processors(std::strtod(quota.c_str(), nullptr), period, limits);
}

// visit(group) for the process's group of a hierarchy and all around it. In a container the path
// may be the host's, of which only the hierarchy's root can be seen.
template <class F>
void for_groups(const fs::path& mount, std::string_view path, F&& visit) {
  fs::path inside = fs::path(path).relative_path().lexically_normal();
  if (inside.string().starts_with("..")) inside.clear();
  for (; !inside.empty() && inside != "."; inside = inside.parent_path()) visit(mount / inside);
  visit(mount);
}

}  // namespace

ContainerLimits container_limits(const std::string& root) {
  ContainerLimits limits;
  const fs::path mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  // A line is "number:controller,controller:path"; version 2 has number 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view path = std::string_view(line).substr(second + 1);
    if (controllers == ",,") {
      for_groups(mounts, path, [&](const fs::path& group) {
        add_memory(group, kSecond, limits);
        add_processors(group, limits);
      });
    }
    if (controllers.find(",memory,") != controllers.npos) {
      for_groups(mounts / "memory", path,
                 [&](const fs::path& group) { add_memory(group, kFirst, limits); });
    }
    if (controllers.find(",cpu,") != controllers.npos) {
      for_groups(mounts / "cpu", path, [&](const fs::path& group) {
        add_processors(number_in(group / "cpu.cfs_quota_us"),
                       number_in(group / "cpu.cfs_period_us"), limits);
      });
    }
  }
  return limits;
}

}  // namespace cairn::model
