// SPDX-License-Identifier: Apache-2.0
#include "model/net/new_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/failpoints.hpp"

namespace cairn::model {

NewFile::NewFile(const std::string& path)
    : path_(path), temporary_(path_ + ".tmp." + std::to_string(::getpid())) {
  file_ = std::fopen(temporary_.c_str(), "wbe");
  if (file_ == nullptr) fail(errno);
}

NewFile::~NewFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!done_) std::remove(temporary_.c_str());
}

void NewFile::write(const void* data, std::size_t bytes) {
  if (hit_failpoint("model.write")) fail(ENOSPC);
  if (std::fwrite(data, 1, bytes, file_) != bytes) fail(errno);
}

void NewFile::commit(bool durable) {
  if (std::fflush(file_) != 0 || (durable && ::fsync(::fileno(file_)) != 0)) fail(errno);
  std::FILE* const file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0) fail(errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  done_ = true;
}

void NewFile::fail(int error) const {
  throw LoadError(path_ + ": cannot be written: " + std::strerror(error) + ".");
}

}  // namespace cairn::model
