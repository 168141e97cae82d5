// SPDX-License-Identifier: Apache-2.0
#include "cli/files.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/bytes.hpp"
#include "base/check.hpp"

namespace cairn::cli {

namespace {

constexpr std::size_t kMostInput = std::size_t{512} << 20U;

// read() reports a directory by a flag, an iterator by throwing.
std::string read_all(std::istream& in, const std::string& name) {
  std::string text;
  std::array<char, 65536> chunk;
  while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostInput) {
      throw LoadError(name + ": is longer than " + format_bytes(kMostInput) +
                      ", the most that is read");
    }
  }
  return text;
}

}  // namespace

std::string read_input(const std::string& path) {
  if (path == "-") return read_all(std::cin, "standard input");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text = read_all(file, path);
  if (!file.is_open() || file.bad())
    throw LoadError(path + ": cannot be read" +
                    (errno ? std::string(": ") + std::strerror(errno) : ""));
  return text;
}

void check_writable(const std::string& path) {
  errno = 0;
  if (!std::ofstream(path, std::ios::binary | std::ios::app)) {
    throw LoadError(path + ": cannot be written: " + std::strerror(errno));
  }
}

void write_file(const std::string& path, const std::string& content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw LoadError(path + ": cannot be written: " + std::strerror(errno));
}

}  // namespace cairn::cli
