// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>

#include "tests/simt/harness/harness.hpp"
#include "tests/simt/harness/machine.hpp"

namespace cairn::simt {
namespace {

std::map<const std::byte*, std::size_t>& guards() {
  static std::map<const std::byte*, std::size_t> all;
  return all;
}

}  // namespace

void guard(const std::byte* begin, std::size_t bytes) { guards()[begin] = bytes; }
void unguard(const std::byte* begin) { guards().erase(begin); }

void check_guards(const LaunchShape& shape) {
  for (const auto& [begin, bytes] : guards()) {
    if (!std::all_of(begin, begin + bytes, [](std::byte b) { return b == std::byte{0xa5}; })) {
      throw Fault(std::string("kernel ") + shape.kernel + " wrote outside a buffer");
    }
  }
}

}  // namespace cairn::simt
