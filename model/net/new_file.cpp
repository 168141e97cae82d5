// SPDX-License-Identifier: Apache-2.0
#include "model/net/new_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/check.hpp"
#include "base/failpoints.hpp"

namespace cairn::model {
namespace {

constexpr const char* kTemporary = ".tmp.";  // before the writer's process id

// Removes what killed writers left of `path`: their locks ended with them.
void remove_abandoned(const std::filesystem::path& path) {
  const std::string prefix = path.filename().string() + kTemporary;
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(directory, ignored), end; it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::string_view id = std::string_view(name).substr(prefix.size());
    if (id.empty() || id.find_first_not_of("0123456789") != std::string_view::npos) continue;
    const int file = ::open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
    ::close(file);
  }
}

}  // namespace

NewFile::NewFile(const std::string& path)
    : path_(path), temporary_(path_ + kTemporary + std::to_string(::getpid())) {
  remove_abandoned(path_);
  file_ = std::fopen(temporary_.c_str(), "wbe");
  if (file_ == nullptr) fail(errno);
  // Where locks are not to be had, nothing that was left is ever removed.
  ::flock(::fileno(file_), LOCK_EX | LOCK_NB);
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
