// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/bytes.hpp"
#include "engine/cache/disk_index.hpp"
#include "engine/cache/fingerprint.hpp"

namespace cairn::engine {
namespace {

constexpr std::string_view kSegmentSuffix = ".kv";
constexpr std::string_view kStateSuffix = ".state";
constexpr std::string_view kBlobSuffix = ".blob";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::size_t kIdDigits = 16;

Error refusal(ErrorCode code, const std::string& path, const std::string& why) {
  return {code, "the cache's directory " + path + " " + why, {}};
}
std::string id_name(DiskId id, std::string_view suffix) {
  return hex_digits(id) + std::string(suffix);
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

Result<std::unique_ptr<DiskDirectory>> DiskDirectory::open(const DiskRoot& root,
                                                           const std::string& name, bool create) {
  std::unique_ptr<DiskDirectory> d(new DiskDirectory);
  d->path_ = root.path() + "/" + name;
  if (create && ::mkdirat(root.fd(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    return refusal(ErrorCode::unavailable, d->path_,
                   std::string("cannot be created: ") + std::strerror(errno));
  }
  d->fd_ = ::openat(root.fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (d->fd_ < 0) {
    return refusal(ErrorCode::bad_request, d->path_,
                   std::string("cannot be opened: ") + std::strerror(errno));
  }
  Result<std::vector<std::string>> names = names_in(d->fd_);
  if (!names) return names.error();
  for (const std::string& file : *names) {
    if (classify(file)) continue;
    return refusal(ErrorCode::bad_request, d->path_,
                   "holds \"" + file + "\", which is not the cache's");
  }
  return d;
}

DiskDirectory::~DiskDirectory() {
  if (fd_ >= 0) ::close(fd_);
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
