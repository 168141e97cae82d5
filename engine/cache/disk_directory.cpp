// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/log.hpp"
#include "engine/cache/disk_index.hpp"

namespace cairn::engine {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::string_view kSegmentSuffix = ".kv";
constexpr std::string_view kStateSuffix = ".state";
constexpr std::string_view kBlobSuffix = ".blob";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::size_t kIdDigits = 16;

Error refusal(ErrorCode code, const std::string& path, const std::string& why) {
  return {code, "the cache directory " + path + " " + why, {}};
}
Error system_refusal(const std::string& path, const std::string& what) {
  return refusal(ErrorCode::unavailable, path, what + ": " + std::strerror(errno));
}

std::string id_name(DiskId id, std::string_view suffix) {
  char digits[kIdDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(id));
  return digits + std::string(suffix);
}

bool ends_with(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
}

std::optional<DiskId> id_in(std::string_view name, std::string_view suffix) {
  if (name.size() != kIdDigits + suffix.size() || !ends_with(name, suffix)) return std::nullopt;
  DiskId id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + kIdDigits, id, 16);
  if (error != std::errc() || end != name.data() + kIdDigits || id == 0) return std::nullopt;
  // One spelling per id, or two files could claim to be the same object.
  return id_name(id, suffix) == name ? std::optional(id) : std::nullopt;
}

std::optional<DirectoryFile> classify(const std::string& name) {
  if (const auto id = id_in(name, kSegmentSuffix)) {
    return DirectoryFile{name, DiskEntryKind::segment, *id, 0};
  }
  if (const auto id = id_in(name, kStateSuffix)) {
    return DirectoryFile{name, DiskEntryKind::state, *id, 0};
  }
  for (const std::string& index : index_file_names(kIndexName)) {
    if (name == index) return DirectoryFile{name, DiskEntryKind::index, 0, 0};
  }
  const std::string_view view = name;
  if (ends_with(name, kBlobSuffix) &&
      valid_blob_name(view.substr(0, view.size() - kBlobSuffix.size()))) {
    return DirectoryFile{name, DiskEntryKind::blob, 0, 0};
  }
  if (ends_with(name, kTemporarySuffix)) {
    auto rest = classify(name.substr(0, name.size() - kTemporarySuffix.size()));
    if (rest && rest->kind != DiskEntryKind::index && rest->kind != DiskEntryKind::temporary) {
      return DirectoryFile{name, DiskEntryKind::temporary, 0, 0};
    }
  }
  return std::nullopt;
}

struct CloseDir {
  void operator()(DIR* d) const { ::closedir(d); }
};

// Every name but "." and "..".
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

}  // namespace

std::string segment_file_name(DiskId id) { return id_name(id, kSegmentSuffix); }
std::string state_file_name(DiskId id) { return id_name(id, kStateSuffix); }
std::string blob_file_name(std::string_view name) {
  return std::string(name) + std::string(kBlobSuffix);
}
std::string temporary_name(const std::string& name) { return name + std::string(kTemporarySuffix); }

bool valid_blob_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), plain);
}

Result<std::unique_ptr<DiskDirectory>> DiskDirectory::open(std::string path, bool create) {
  // A slash at the end would make the system follow a link.
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::unique_ptr<DiskDirectory> d(new DiskDirectory);
  d->path_ = path;
  if (create && ::access(path.c_str(), F_OK) != 0) {
    std::error_code ignored;  // mkdir tells what is wrong
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return system_refusal(path, "cannot be created");
    }
  }
  d->fd_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (d->fd_ < 0) {
    struct stat link {};
    if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
      return refusal(ErrorCode::bad_request, path, "is a symbolic link; name the directory itself");
    }
    if (errno == ENOENT) return refusal(ErrorCode::not_found, path, "does not exist");
    return system_refusal(path, "cannot be opened");
  }
  struct stat info {};
  if (::fstat(d->fd_, &info) != 0) return system_refusal(path, "cannot be examined");
  if (info.st_uid != ::geteuid()) {
    return refusal(ErrorCode::bad_request, path,
                   "belongs to user " + std::to_string(info.st_uid) + ", not to the one running");
  }
  if (Status mine = d->refuse_strangers(); !mine) return mine.error();
  if ((info.st_mode & 0077) != 0) {
    if (::fchmod(d->fd_, 0700) != 0) return system_refusal(path, "is open to others, and stays so");
    log(LogLevel::warning,
        "the cache directory " + path + " was open to other users; its mode is 0700 now");
  }
  if (Status locked = d->take_lock(); !locked) return locked.error();
  return d;
}

DiskDirectory::~DiskDirectory() {
  if (lock_ >= 0) ::close(lock_);
  if (fd_ >= 0) ::close(fd_);
}

// Someone's home must not lose its mode, nor gain thousands of files, by a slip of the hand.
Status DiskDirectory::refuse_strangers() const {
  Result<std::vector<std::string>> names = names_in(fd_);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (name == kLockName || classify(name)) continue;
    return refusal(ErrorCode::bad_request, path_,
                   "holds \"" + name + "\", which is not the cache's; name one of its own");
  }
  return ok_status();
}

Status DiskDirectory::take_lock() {
  lock_ = ::openat(fd_, kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) return system_refusal(path_, "cannot be locked");
  char holder[32] = {};
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_refusal(path_, "cannot be locked");
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

Result<std::vector<DirectoryFile>> DiskDirectory::list() const {
  Result<std::vector<std::string>> names = names_in(fd_);
  if (!names) return names.error();
  std::vector<DirectoryFile> files;
  for (const std::string& name : *names) {
    auto file = classify(name);
    if (!file) continue;
    struct stat info {};
    if (::fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    file->bytes = S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
    files.push_back(std::move(*file));
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

void DiskDirectory::remove(const std::string& name) const { ::unlinkat(fd_, name.c_str(), 0); }
void DiskDirectory::sync() const { ::fsync(fd_); }

}  // namespace cairn::engine
