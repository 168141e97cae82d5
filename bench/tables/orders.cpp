// SPDX-License-Identifier: Apache-2.0
#include "bench/tables/orders.hpp"

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "base/check.hpp"

namespace cairn::bench {

std::vector<Order> read_orders(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  constexpr std::string_view kEnding = ".csv.gz";
  std::map<std::string, std::string> paths;  // by name
  for (const std::string& folder : folders) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
      std::string name = entry.path().filename().string();
      if (!name.ends_with(kEnding)) continue;
      name.resize(name.size() - kEnding.size());
      paths.emplace(std::move(name), entry.path().string());
    }
    if (failed) throw LoadError(folder + ": " + failed.message());
  }
  std::vector<Order> orders;
  for (const auto& [name, path] : paths) orders.push_back({name, engine::read_trace(path)});
  return orders;
}

void side_by_side(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    });
  }
}

}  // namespace cairn::bench
