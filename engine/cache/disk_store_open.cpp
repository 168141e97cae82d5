// SPDX-License-Identifier: Apache-2.0
// Opening a store: whose files these are, what the index says, and what a crash left behind.
#include <algorithm>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "engine/cache/disk_store_impl.hpp"

namespace cairn::engine {

// The sizes follow from the parts; they are named so that a difference can be told.
std::string disk_store_text(const Fingerprint& fingerprint, const model::MemoryLayout& layout) {
  return fingerprint.text() + "state_bytes=" + std::to_string(layout.state_bytes) +
         "\nkv_block_bytes=" + std::to_string(layout.kv_block_bytes) + "\n";
}

std::string disk_store_name(const Fingerprint& fingerprint, const model::MemoryLayout& layout) {
  return hex_digits(hash_bytes(disk_store_text(fingerprint, layout)));
}

Status DiskStore::Impl::open_index() {
  const std::string path = directory_->path() + "/" + kIndexName;
  auto index = DiskIndex::open(path);
  if (!index && index.error().code == ErrorCode::bad_request) {
    delete_all("its index cannot be used (" + index.error().message + ")");
    index = DiskIndex::open(path);
  }
  if (!index) return index.error();
  index_ = index.take();
  return ok_status();
}

/// Every file of the cache, the index included; their list as it was.
Result<std::vector<DirectoryFile>> DiskStore::Impl::delete_files() {
  index_.reset();
  Result<std::vector<DirectoryFile>> files = directory_->list();
  if (!files) return files;
  for (const DirectoryFile& f : *files) directory_->remove(f.name);
  directory_->sync();
  {
    const std::unique_lock lock(map_mutex_);
    map_ = {};
  }
  sizes_.clear();
  touched_.clear();
  now_.bytes = 0;
  std::fill(std::begin(now_.states_by_kind), std::end(now_.states_by_kind), 0);
  return files;
}

void DiskStore::Impl::delete_all(const std::string& why) {
  const auto files = delete_files();
  log(LogLevel::warning, "the disk cache " + directory_->path() + " starts empty: " + why);
  if (!files) return;
  now_.swept += static_cast<std::uint64_t>(
      std::count_if(files->begin(), files->end(),
                    [](const DirectoryFile& f) { return f.kind != DiskEntryKind::index; }));
}

Status DiskStore::Impl::check_fingerprint() {
  const std::string here = own_text();
  Result<std::string> stored = index_->meta(kFingerprintKey);
  if (!stored) return stored.error();
  if (*stored == here) return ok_status();
  if (!stored->empty()) {
    const std::uint64_t swept = now_.swept;
    delete_all(fingerprint_difference(*stored, here));
    now_.refused_foreign += now_.swept - swept;
    now_.swept = swept;
    if (Status opened = open_index(); !opened) return opened;
  }
  tell_of_others();
  return index_->set_meta(kFingerprintKey, here);
}

Status DiskStore::Impl::load_index() {
  std::uint64_t rows_refused = 0;
  Result<DiskId> last = index_->load(map_, &rows_refused);
  if (!last) return last.error();
  next_id_ = *last + 1;
  for (const auto& [id, s] : map_.states()) {
    ++kind_count(s.kind);
    requests_ = std::max(requests_, s.rated_at);
  }
  now_.refused_corrupt += rows_refused;
  return ok_status();
}

Status DiskStore::Impl::load() {
  find_others();
  if (Status opened = open_index(); !opened) return opened;
  if (Status same = check_fingerprint(); !same) return same;
  if (Status loaded = load_index(); !loaded) {
    if (loaded.error().code != ErrorCode::bad_request) return loaded;
    delete_all("its index is damaged (" + loaded.error().message + ")");
    Status opened = open_index();
    if (opened) opened = check_fingerprint();
    if (!opened) return opened;
  }
  if (Status swept = sweep(); !swept) return swept;
  IndexBatch unused;
  unused.freed = map_.remove_unused();
  if (!unused.empty()) remove({}, std::move(unused));
  expire();
  flush();
  (void)make_room(0, 0, nullptr, nullptr);  // the budget may be smaller now
  return ok_status();
}

Status DiskStore::Impl::purge() {
  purge_others();
  // The directory is in nobody's way: an empty store under the same options.
  if (const auto files = delete_files(); !files) return turn_off(files.error());
  Status opened = open_index();
  if (opened) opened = index_->set_meta(kFingerprintKey, own_text());
  if (!opened) return turn_off(opened.error());
  flush();
  return ok_status();
}

// Afterwards files and map agree, and sizes_ holds what the directory does.
Status DiskStore::Impl::sweep() {
  Result<std::vector<DirectoryFile>> files = directory_->list();
  if (!files) return files.error();
  for (const DirectoryFile& f : *files) {
    if (f.kind == DiskEntryKind::index) continue;
    if (f.kind == DiskEntryKind::temporary) {
      directory_->remove(f.name);
      ++now_.swept;
      continue;
    }
    set_size(f.name, f.bytes);
  }
  for (const DirectoryFile& f : *files) {
    if (sizes_.count(f.name) == 0) continue;  // gone with one before it
    if (f.kind == DiskEntryKind::segment) sweep_segment(f);
    if (f.kind == DiskEntryKind::state) sweep_state(f);
    if (f.kind == DiskEntryKind::blob) sweep_blob(f);
  }
  std::vector<DiskId> missing;
  for (const DiskId id : map_.segment_ids()) {
    if (sizes_.count(segment_file_name(id)) != 0) continue;
    ++now_.refused_missing;
    const auto lost = map_.states_beyond({id, 0});
    missing.insert(missing.end(), lost.begin(), lost.end());
  }
  for (const auto& [id, s] : map_.states()) {
    if (sizes_.count(state_file_name(id)) != 0) continue;
    ++now_.refused_missing;
    missing.push_back(id);
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  if (!missing.empty()) remove(missing);
  return ok_status();
}

void DiskStore::Impl::sweep_segment(const DirectoryFile& file) {
  if (!map_.has_segment(file.id)) {
    ++now_.swept;
    return remove_file(file.name);
  }
  const DiskHeader header = header_of(map_.segment(file.id));
  const std::uint32_t blocks = map_.blocks_of(file.id);
  const std::uint64_t wanted = disk_file_bytes(header, blocks);
  if (file.bytes > wanted) {
    // A crash came between the row and the file: the cut is made up for.
    DiskFreed cut;
    cut.cuts.push_back({file.id, blocks});
    free_files(cut);
  } else if (file.bytes < wanted) {
    ++now_.refused_corrupt;
    std::uint32_t right = 0;
    while (disk_file_bytes(header, right + 1) <= file.bytes) ++right;
    remove(map_.states_beyond({file.id, right}));
  }
}

void DiskStore::Impl::sweep_state(const DirectoryFile& file) {
  const DiskStateInfo* state = map_.state(file.id);
  if (state == nullptr) {
    ++now_.swept;
    return remove_file(file.name);
  }
  if (file.bytes == bytes_of(*state)) return;
  ++now_.refused_corrupt;
  remove({&file.id, 1});
}

void DiskStore::Impl::sweep_blob(const DirectoryFile& file) {
  if (foreign_) return;
  const auto opened = DiskReader::open(directory_->fd(), file.name, fingerprint_);
  if (!opened && count_refusal(opened.error())) remove_file(file.name);
}

}  // namespace cairn::engine
