// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include "model/net/container_limits.hpp"
#include "model/net/host_limits.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"

using namespace cairn::model;
using cairn::testing::TempDir;

namespace {

// A machine's /proc and /sys, as far as they are read.
struct Machine {
  explicit Machine(const std::string& groups) { write("proc/self/cgroup", groups); }
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(dir.file(name)).parent_path());
    dir.write(name, content);
  }
  void group(const std::string& name, const std::string& content) const {
    write("sys/fs/cgroup/" + name, content);
  }
  ContainerLimits limits() const { return container_limits(dir.path()); }
  TempDir dir;
};

}  // namespace

TEST_CASE("no control groups and groups without limits limit nothing") {
  for (const char* groups : {"", "0::/a\n", "4:memory:/a\n3:cpu,cpuacct:/a\n", "nonsense\n"}) {
    const Machine machine(groups);
    machine.group("a/memory.max", "max\n");
    machine.group("a/cpu.max", "max 100000\n");
    machine.group("memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    machine.group("cpu/a/cpu.cfs_quota_us", "-1\n");
    machine.group("cpu/a/cpu.cfs_period_us", "100000\n");
    const ContainerLimits limits = machine.limits();
    CHECK(limits.memory == UINT64_MAX);
    CHECK(limits.memory_left == UINT64_MAX);
    CHECK(limits.processors == 0);
  }
}

TEST_CASE("the tightest of nested groups counts, less what it uses but for pages of files") {
  const Machine machine("0::/outer/inner\n");
  machine.group("outer/memory.max", "1000\n");
  machine.group("outer/memory.current", "700\n");
  machine.group("outer/memory.stat", "anon 400\ninactive_file 200\nactive_file 100\n");
  machine.group("outer/inner/memory.max", "max\n");
  machine.group("outer/inner/memory.high", "2000\n");
  machine.group("outer/inner/memory.current", "100\n");
  machine.group("outer/cpu.max", "150000 100000\n");
  machine.group("outer/inner/cpu.max", "400000 100000\n");
  CHECK(machine.limits().memory == 1000);
  CHECK(machine.limits().memory_left == 600);
  CHECK(machine.limits().processors == 1.5);
  machine.group("outer/inner/memory.high", "650\n");
  CHECK(machine.limits().memory == 650);
  CHECK(machine.limits().memory_left == 550);
}

TEST_CASE("groups of version 1 count, and the root where a container sees the host's path") {
  const Machine machine("5:cpu,cpuacct:/host/box\n4:memory:/host/box\n0::/\n");
  machine.group("memory/memory.limit_in_bytes", "1000\n");
  machine.group("memory/memory.usage_in_bytes", "900\n");
  machine.group("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  machine.group("cpu/cpu.cfs_quota_us", "50000\n");
  machine.group("cpu/cpu.cfs_period_us", "100000\n");
  CHECK(machine.limits().memory == 1000);
  CHECK(machine.limits().memory_left == 600);
  CHECK(machine.limits().processors == 0.5);
  machine.group("memory/host/box/memory.limit_in_bytes", "300\n");
  CHECK(machine.limits().memory == 300);
}

TEST_CASE("more than is used counts as nothing left") {
  const Machine machine("0::/../other\n");  // a group outside what can be seen
  machine.group("memory.max", "1000\n");
  machine.group("memory.current", "1200\n");
  CHECK(machine.limits().memory_left == 0);
}

TEST_CASE("what is available is no more than what is allowed") {
  CHECK(available_memory() > 0);
  CHECK(available_memory() <= allowed_memory());
}
