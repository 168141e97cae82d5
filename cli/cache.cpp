// SPDX-License-Identifier: Apache-2.0
// cairn cache: look at a disk cache, or empty it, while no server has it.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>

#include "base/bytes.hpp"
#include "cli/commands.hpp"
#include "engine/cache/disk_store.hpp"

namespace cairn::cli {
namespace {

std::string time_of(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "unknown";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

void print(const engine::DiskScan& scan) {
  if (!scan.problem.empty()) {
    std::printf("bytes        %s, not to be read: %s\n",
                format_bytes(scan.bytes + scan.index_bytes).c_str(), scan.problem.c_str());
    return;
  }
  std::printf("states       %llu\n", static_cast<unsigned long long>(scan.states));
  std::printf("tokens       %llu in %llu runs of KV blocks\n",
              static_cast<unsigned long long>(scan.tokens),
              static_cast<unsigned long long>(scan.segments));
  std::printf("bytes        %s, index %s\n", format_bytes(scan.bytes).c_str(),
              format_bytes(scan.index_bytes).c_str());
  if (scan.states > 0) {
    std::printf("last used    %s to %s\n", time_of(scan.oldest_use_ms).c_str(),
                time_of(scan.newest_use_ms).c_str());
  }
  if (!scan.fingerprint.empty()) std::printf("written by\n%s", scan.fingerprint.c_str());
}

int stat(const std::string& dir) {
  const auto scans = engine::scan_directory(dir);
  if (!scans) return complain(scans.error().message);
  if (scans->empty()) std::printf("states       0\n");
  for (const engine::DiskScan& scan : *scans) {
    if (&scan != &scans->front()) std::printf("\n");
    print(scan);
  }
  return 0;
}

int purge(const std::string& dir) {
  const auto bytes = engine::purge_directory(dir);
  if (!bytes) return complain(bytes.error().message);
  std::printf("removed %s\n", format_bytes(*bytes).c_str());
  return 0;
}

}  // namespace

void add_cache(CLI::App& app, Action& action) {
  CLI::App* cache = app.add_subcommand("cache", "Look at a disk cache or empty it");
  cache->require_subcommand(1);
  const auto dir = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* help, int (*run)(const std::string&)) {
    CLI::App* command = cache->add_subcommand(name, help);
    command->add_option("DIR", *dir, "What --disk-dir named")->required();
    command->callback([&action, dir, run] { action = [dir, run] { return run(*dir); }; });
  };
  add("stat", "What the directory holds under each fingerprint, and who wrote it", stat);
  add("purge", "Remove every file of the cache", purge);
}

}  // namespace cairn::cli
