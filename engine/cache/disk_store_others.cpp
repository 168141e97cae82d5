// SPDX-License-Identifier: Apache-2.0
// What shares the directory: the stores of other fingerprints. They are left as they are, but for
// age and room.
#include <algorithm>
#include <charconv>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "engine/cache/disk_store_impl.hpp"

namespace cairn::engine {
namespace {

constexpr std::int64_t kExpireOthersEveryMs = 3'600'000;

/// The number behind "name=" in a store's text; 0: there is none.
std::uint64_t number_in(const std::string& text, const std::string& name) {
  const std::string digits = fingerprint_part(text, name);
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// Every file of a store, and its directory. Returns their bytes.
Result<std::uint64_t> delete_store(const DiskRoot& root, const std::string& name) {
  auto directory = DiskDirectory::open(root, name, false);
  if (!directory) return directory.error();
  Result<std::vector<DirectoryFile>> files = (*directory)->list();
  if (!files) return files.error();
  std::uint64_t bytes = 0;
  for (const DirectoryFile& f : *files) {
    bytes += f.bytes;
    (*directory)->remove(f.name);
  }
  (*directory)->sync();
  root.remove(name);
  return bytes;
}

Status scan_index(const std::string& path, DiskScan& scan) {
  auto index = DiskIndex::open(path);
  if (!index) return index.error();
  Result<std::string> fingerprint = (*index)->meta(kFingerprintKey);
  if (!fingerprint) return fingerprint.error();
  scan.fingerprint = fingerprint.take();
  DiskMap map;
  std::uint64_t rows_refused = 0;
  if (Result<DiskId> last = (*index)->load(map, &rows_refused); !last) return last.error();
  scan.states = map.states().size();
  scan.segments = map.segments();
  scan.tokens = map.blocks() * model::kBlockTokens;
  for (const auto& [id, s] : map.states()) {
    const bool first = scan.newest_use_ms == 0;
    scan.oldest_use_ms = first ? s.last_use_ms : std::min(scan.oldest_use_ms, s.last_use_ms);
    scan.newest_use_ms = std::max(scan.newest_use_ms, s.last_use_ms);
    scan.tokens += s.tail.size();
  }
  return ok_status();
}

DiskScan scan_store(const DiskRoot& root, const std::string& name) {
  DiskScan scan;
  const auto failed = [&](const Error& e) {
    scan.problem = e.message;
    return scan;
  };
  auto directory = DiskDirectory::open(root, name, false);
  if (!directory) return failed(directory.error());
  Result<std::vector<DirectoryFile>> files = (*directory)->list();
  if (!files) return failed(files.error());
  for (const DirectoryFile& f : *files) {
    (f.kind == DiskEntryKind::index ? scan.index_bytes : scan.bytes) += f.bytes;
  }
  if (scan.index_bytes == 0) return scan;
  const Status read = scan_index((*directory)->path() + "/" + kIndexName, scan);
  return read ? scan : failed(read.error());
}

}  // namespace

std::unique_ptr<DiskStore::Impl> DiskStore::Impl::open_other(
    const DiskOptions& options, const std::shared_ptr<const DiskRoot>& root,
    const std::string& name) {
  auto directory = DiskDirectory::open(*root, name, false);
  if (!directory) return nullptr;
  auto impl = std::make_unique<Impl>(options, root, directory.take());
  impl->foreign_ = true;
  auto index = DiskIndex::open(impl->directory_->path() + "/" + kIndexName);
  Status good = index ? ok_status() : Status(index.error());
  if (good) {
    impl->index_ = index.take();
    const Result<std::string> text = impl->index_->meta(kFingerprintKey);
    impl->options_.layout.state_bytes = text ? number_in(*text, "state_bytes") : 0;
    impl->options_.layout.kv_block_bytes = text ? number_in(*text, "kv_block_bytes") : 0;
    good = text ? impl->load_index() : Status(text.error());
    if (good && impl->options_.layout.state_bytes == 0) {
      good = Error{ErrorCode::bad_request, "it does not say whose it is", {}};
    }
  }
  if (good) good = impl->sweep();
  if (good) return impl;
  if (good.error().code != ErrorCode::bad_request) return nullptr;
  impl.reset();
  log(LogLevel::warning,
      "the disk cache " + root->path() + "/" + name + " is deleted: " + good.error().message);
  (void)delete_store(*root, name);
  return nullptr;
}

void DiskStore::Impl::find_others() {
  others_.clear();
  now_.other_bytes = 0;
  const Result<std::vector<std::string>> names = root_->stores();
  if (!names) return;
  for (const std::string& name : *names) {
    if (name == own_name()) continue;
    DiskScan scan = scan_store(*root_, name);
    const std::uint64_t bytes = scan.bytes + scan.index_bytes;
    others_.push_back({name, std::move(scan.fingerprint), scan.newest_use_ms, bytes});
    now_.other_bytes += bytes;
  }
  std::sort(others_.begin(), others_.end(),
            [](const Other& a, const Other& b) { return a.last_use_ms < b.last_use_ms; });
}

// A store that starts empty although somebody has been here: the user is to know why.
void DiskStore::Impl::tell_of_others() const {
  if (others_.empty() || others_.back().last_use_ms == 0) return;
  const std::string here = own_text();
  log(LogLevel::warning, "the disk cache " + root_->path() +
                             " starts empty: what was written before cannot be read (" +
                             fingerprint_difference(others_.back().fingerprint, here) +
                             ") and stays beside it");
}

bool DiskStore::Impl::free_oldest(std::uint64_t need) {
  std::vector<std::pair<std::int64_t, DiskId>> order;
  for (const auto& [id, s] : map_.states()) order.emplace_back(s.last_use_ms, id);
  std::sort(order.begin(), order.end());
  DiskMap::Preview preview(map_);
  std::vector<DiskId> victims;
  std::uint64_t got = 0;
  for (const auto& [last_use, id] : order) {
    if (got >= need) break;
    got += bytes_of(*map_.state(id)) + bytes_of(preview.remove(id));
    victims.push_back(id);
  }
  if (!victims.empty()) remove(victims);
  if (index_ != nullptr) (void)index_->checkpoint();
  measure_index();
  return !map_.states().empty();
}

void DiskStore::Impl::shrink_others(std::uint64_t need) {
  constexpr std::uint64_t kParts = 16;  // at least one of so many: opening a store takes time
  need = std::max(need, now_.other_bytes / kParts);
  std::uint64_t freed = 0;
  for (Other& other : others_) {
    if (freed >= need) break;
    bool left = false;
    std::uint64_t bytes = 0;
    if (const auto store = open_other(options_, root_, other.name)) {
      left = store->free_oldest(need - freed);
      bytes = left ? store->now_.bytes + store->now_.index_bytes : 0;
    }
    if (!left) (void)delete_store(*root_, other.name);
    freed += other.bytes - std::min(other.bytes, bytes);
    other.bytes = bytes;
  }
  std::erase_if(others_, [](const Other& other) { return other.bytes == 0; });
  now_.other_bytes = 0;
  for (const Other& other : others_) now_.other_bytes += other.bytes;
}

void DiskStore::Impl::expire_others() {
  if (others_.empty() || now() - others_expired_ms_ < kExpireOthersEveryMs) return;
  others_expired_ms_ = now();
  for (const Other& other : others_) {
    const auto store = open_other(options_, root_, other.name);
    if (!store) continue;
    store->expire();
    store->flush();
    if (!store->map_.states().empty()) continue;
    (void)delete_store(*root_, other.name);
  }
  find_others();
}

void DiskStore::Impl::purge_others() {
  for (const Other& other : others_) (void)delete_store(*root_, other.name);
  find_others();
}

Result<std::vector<DiskScan>> scan_directory(const std::string& dir) {
  auto root = DiskRoot::open(dir, false);
  if (!root) return root.error();
  Result<std::vector<std::string>> names = (*root)->stores();
  if (!names) return names.error();
  std::vector<DiskScan> scans;
  for (const std::string& name : *names) scans.push_back(scan_store(**root, name));
  return scans;
}

Result<std::uint64_t> purge_directory(const std::string& dir) {
  auto root = DiskRoot::open(dir, false);
  if (!root) return root.error();
  Result<std::vector<std::string>> names = (*root)->stores();
  if (!names) return names.error();
  std::uint64_t bytes = 0;
  for (const std::string& name : *names) {
    Result<std::uint64_t> removed = delete_store(**root, name);
    if (!removed) return removed.error();
    bytes += *removed;
  }
  (*root)->sync();
  return bytes;
}

}  // namespace cairn::engine
