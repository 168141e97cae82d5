// SPDX-License-Identifier: Apache-2.0
// All recorded orders of some folders, and cells of a table worked out side by side.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/simulate/trace.hpp"

namespace cairn::bench {

struct Order {
  std::string name;  // of the file, without endings
  std::unique_ptr<const engine::Trace> trace;
};

/// Every NAME.csv.gz of the folders by name; the first of those with one name. Throws LoadError.
std::vector<Order> read_orders(const std::vector<std::string>& folders);

/// work(0) to work(count - 1), each once, on `threads` threads; work must not throw.
void side_by_side(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace cairn::bench
