// SPDX-License-Identifier: Apache-2.0
// The tiny checkpoint and its recorded outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "tests/model/net/temp_dir.hpp"

namespace cairn::testing {

inline const std::string kTiny = std::string(CAIRN_FIXTURES) + "/tiny";

inline json::Value golden() { return json::parse(read_file(kTiny + "/golden.json")).take(); }

inline std::vector<double> doubles(const json::Value& v) {
  std::vector<double> out;
  for (const json::Value& item : v.items()) out.push_back(item.as_double());
  return out;
}

inline std::vector<std::int32_t> ints(const json::Value& v) {
  std::vector<std::int32_t> out;
  for (const json::Value& item : v.items()) out.push_back(static_cast<std::int32_t>(item.as_int()));
  return out;
}

}  // namespace cairn::testing
