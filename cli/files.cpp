// SPDX-License-Identifier: Apache-2.0
#include "cli/files.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/check.hpp"

namespace cairn::cli {

std::string read_input(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 65536> chunk;  // read() reports a directory by a flag, an iterator by throwing
  while (file.read(chunk.data(), chunk.size()) || file.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad())
    throw LoadError(path + ": cannot be read" +
                    (errno ? std::string(": ") + std::strerror(errno) : ""));
  return text;
}

}  // namespace cairn::cli
