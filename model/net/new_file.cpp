// SPDX-License-Identifier: Apache-2.0
#include "model/net/new_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "base/log.hpp"

namespace cairn::model {
namespace {

constexpr const char* kTemporary = ".tmp.";  // before 16 hexadecimal digits
constexpr std::size_t kDigits = 16;
constexpr int kAttempts = 8;

// Process ids repeat in containers that share a directory.
std::string random_digits() {
  std::random_device random;
  return hex_digits(std::uint64_t{random()} << 32U | random());
}

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
    if (id.size() != kDigits || id.find_first_not_of("0123456789abcdef") != id.npos) continue;
    const int file = ::open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
    ::close(file);
  }
}

}  // namespace

NewFile::NewFile(const std::string& path, std::chrono::milliseconds lock_wait) : path_(path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  // Devices, directories: renaming to them fails late or replaces them.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail("it is no regular file");
  }
  remove_abandoned(path_);
  for (int attempt = 0; file_ == nullptr && attempt < kAttempts; ++attempt)
    open_temporary(lock_wait);
  if (file_ == nullptr) fail(EEXIST);
}

// Leaves file_ null when the name is taken, or was taken for abandoned before it was locked.
void NewFile::open_temporary(std::chrono::milliseconds lock_wait) {
  temporary_ = path_ + kTemporary + random_digits();
  const int file = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) {
    if (errno == EEXIST) return;
    fail(errno);
  }
  if (!lock(file, lock_wait)) {
    ::close(file);
    ::unlink(temporary_.c_str());
    fail("another process has locked " + temporary_ + " for " + std::to_string(lock_wait.count()) +
         " ms");
  }
  struct stat info {};
  if (::stat(temporary_.c_str(), &info) != 0) {
    ::close(file);
    return;
  }
  file_ = ::fdopen(file, "wb");
  if (file_ != nullptr) return;
  const int error = errno;
  ::close(file);
  ::unlink(temporary_.c_str());
  fail(error);
}

// False when another process still has the lock after `wait`: one that looks for what was abandoned
// keeps it for no longer than it takes to remove the file. True also where locks are not to be had;
// nothing that was left is ever removed there.
bool NewFile::lock(int file, std::chrono::milliseconds wait) const {
  constexpr std::chrono::milliseconds kAgain{10}, kTell{1000};
  const auto begin = std::chrono::steady_clock::now();
  bool told = false;
  for (;;) {
    const bool held = hit_failpoint("model.lock") || (::flock(file, LOCK_EX | LOCK_NB) != 0 &&
                                                      (errno == EWOULDBLOCK || errno == EINTR));
    if (!held) return true;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= wait) return false;
    if (waited >= kTell && !std::exchange(told, true)) {
      log(LogLevel::info, path_ + ": waiting for a lock on " + temporary_);
    }
    std::this_thread::sleep_for(kAgain);
  }
}

NewFile::~NewFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!done_) std::remove(temporary_.c_str());
}

void NewFile::reserve(std::uint64_t bytes) {
  if (hit_failpoint("model.reserve")) fail(ENOSPC);
  struct rlimit most {};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes > most.rlim_cur) fail(EFBIG);
  const auto length = static_cast<off_t>(bytes);
  if (::fallocate(::fileno(file_), FALLOC_FL_KEEP_SIZE, 0, length) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) fail(errno);
  // A file system that takes no room ahead.
  std::error_code unknown;
  const auto space = std::filesystem::space(temporary_, unknown);
  if (!unknown && space.available < bytes) fail(ENOSPC);
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

void NewFile::fail(const std::string& why) const {
  throw LoadError(path_ + ": cannot be written: " + why + ".");
}

void NewFile::fail(int error) const { fail(std::string(std::strerror(error))); }

}  // namespace cairn::model
