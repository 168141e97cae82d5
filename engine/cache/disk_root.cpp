// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_root.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/failpoints.hpp"
#include "base/log.hpp"

namespace cairn::engine {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::size_t kStoreNameDigits = 16;

Error refusal(ErrorCode code, const std::string& path, const std::string& why) {
  return {code, "the cache directory " + path + " " + why, {}};
}
// What no waiting will mend.
Error unusable(const std::string& path, const std::string& what) {
  return refusal(ErrorCode::bad_request, path, what + ": " + std::strerror(errno));
}
Error unavailable(const std::string& path, const std::string& what) {
  return refusal(ErrorCode::unavailable, path, what + ": " + std::strerror(errno));
}

struct CloseDir {
  void operator()(DIR* d) const { ::closedir(d); }
};

}  // namespace

Result<std::vector<std::string>> names_in(int fd) {
  const int copy = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, CloseDir> dir(copy < 0 ? nullptr : ::fdopendir(copy));
  if (dir == nullptr) {
    return Error{ErrorCode::unavailable, std::string("cannot list: ") + std::strerror(errno), {}};
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

bool valid_store_name(std::string_view name) {
  return name.size() == kStoreNameDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Status DiskRoot::create() {
  if (::access(path_.c_str(), F_OK) == 0) return ok_status();
  std::error_code ignored;  // mkdir tells what is wrong
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  if (::mkdir(path_.c_str(), 0700) == 0 || errno == EEXIST) return ok_status();
  if (errno == ENOSPC || errno == EDQUOT) return unavailable(path_, "cannot be created");
  return unusable(path_, "cannot be created");
}

Status DiskRoot::examine() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return unusable(path_, "cannot be examined");
  if (info.st_uid != ::geteuid()) {
    return refusal(ErrorCode::bad_request, path_,
                   "belongs to user " + std::to_string(info.st_uid) + ", not to the one running");
  }
  if (Status mine = refuse_strangers(); !mine) return mine;
  if ((info.st_mode & 0077) == 0) return ok_status();
  if (::fchmod(fd_, 0700) != 0) return unavailable(path_, "is open to others, and stays so");
  log(LogLevel::warning,
      "the cache directory " + path_ + " was open to other users; its mode is 0700 now");
  return ok_status();
}

Result<std::unique_ptr<DiskRoot>> DiskRoot::open(std::string path, bool create) {
  // A slash at the end would make the system follow a link.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::unique_ptr<DiskRoot> d(new DiskRoot);
  d->path_ = path;
  if (create) {
    if (Status made = d->create(); !made) return made.error();
  }
  d->fd_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (d->fd_ < 0) {
    const int why = errno;
    struct stat link {};
    if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
      return refusal(ErrorCode::bad_request, path, "is a symbolic link; name the directory itself");
    }
    if (why == ENOENT) return refusal(ErrorCode::not_found, path, "does not exist");
    errno = why;
    return unusable(path, "cannot be opened");
  }
  Status ready = d->examine();
  if (ready) ready = d->take_lock();
  if (!ready) return ready.error();
  return d;
}

DiskRoot::~DiskRoot() {
  if (lock_ >= 0) ::close(lock_);
  if (fd_ >= 0) ::close(fd_);
}

// Someone's home must not lose its mode, nor gain thousands of files, by a slip of the hand.
Status DiskRoot::refuse_strangers() const {
  Result<std::vector<std::string>> names = names_in(fd_);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (name == kLockName || valid_store_name(name)) continue;
    return refusal(ErrorCode::bad_request, path_,
                   "holds \"" + name + "\", which is not the cache's; name one of its own");
  }
  return ok_status();
}

Status DiskRoot::take_lock() {
  lock_ = ::openat(fd_, kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ >= 0 && hit_failpoint("disk.lock")) {
    ::close(std::exchange(lock_, -1));
    errno = EROFS;
  }
  if (lock_ < 0) return unavailable(path_, "cannot be locked");
  char holder[32] = {};
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return unavailable(path_, "cannot be locked");
    const ssize_t n = ::pread(lock_, holder, sizeof holder - 1, 0);
    const std::string pid(holder, n > 0 ? static_cast<std::size_t>(n) : 0);
    return refusal(ErrorCode::bad_request, path_,
                   "is in use by process " + (pid.empty() ? "(unknown)" : pid));
  }
  // On a full disk the lock holds all the same, only without a name to tell others.
  const int n = std::snprintf(holder, sizeof holder, "%ld", static_cast<long>(::getpid()));
  if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, holder, static_cast<std::size_t>(n), 0) != n) {
    log(LogLevel::warning, "the cache directory " + path_ + ": the lock file could not be written");
  }
  return ok_status();
}

Result<std::vector<std::string>> DiskRoot::stores() const {
  Result<std::vector<std::string>> names = names_in(fd_);
  if (!names) return names;
  std::erase_if(*names, [](const std::string& name) { return !valid_store_name(name); });
  std::sort(names->begin(), names->end());
  return names;
}

void DiskRoot::remove(const std::string& store) const {
  ::unlinkat(fd_, store.c_str(), AT_REMOVEDIR);
}
void DiskRoot::sync() const { ::fsync(fd_); }

}  // namespace cairn::engine
