// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.hpp"
#include "engine/cache/disk_store_impl.hpp"

namespace cairn::engine {
namespace {

// Until something has been read or written: 500 MB/s, and 1 ms to begin.
constexpr double kAssumedSecondsPerByte = 2e-9;
constexpr double kOverheadSeconds = 1e-3;

double pace(double seconds, std::uint64_t done, std::uint64_t bytes) {
  const double each = done > 0 ? seconds / static_cast<double>(done) : kAssumedSecondsPerByte;
  return kOverheadSeconds + each * static_cast<double>(bytes);
}

}  // namespace

double disk_read_seconds(const DiskStat& stat, std::uint64_t bytes) {
  return pace(stat.read_seconds, stat.read_bytes, bytes);
}

double disk_write_seconds(const DiskStat& stat, std::uint64_t bytes) {
  return pace(stat.write_seconds, stat.written_bytes, bytes);
}

DiskTokens disk_tail_tokens(const DiskStateInfo& state) {
  DiskTokens out;
  out.fill(-1);
  std::copy(state.tail.begin(), state.tail.end(), out.begin());
  return out;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

DiskStore::Impl::Impl(DiskOptions options, std::shared_ptr<const DiskRoot> root,
                      std::unique_ptr<DiskDirectory> directory)
    : options_(std::move(options)),
      stage_(options_.arena),
      fingerprint_(options_.fingerprint.hash()),
      root_(std::move(root)),
      directory_(std::move(directory)) {}

std::int64_t DiskStore::Impl::now() const {
  if (options_.clock_ms) return options_.clock_ms();
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

DiskHeader DiskStore::Impl::header(DiskFileKind kind, DiskId id, const ChainEnd& chain,
                                   const std::string& scope) const {
  DiskHeader h;
  h.kind = kind;
  h.fingerprint = fingerprint_;
  h.id = id;
  h.parent = chain.segment;
  h.parent_blocks = chain.blocks;
  h.name = scope;
  return h;
}

DiskHeader DiskStore::Impl::header_of(const DiskSegment& s) const {
  DiskHeader h = header(DiskFileKind::segment, s.id, s.parent, s.scope);
  h.position = map_.tokens_in(s.parent);
  h.record_bytes = kDiskTokenBytes + options_.layout.kv_block_bytes;
  h.records = static_cast<std::uint32_t>(s.tokens.size() / model::kBlockTokens);
  return h;
}

DiskHeader DiskStore::Impl::header_of(const DiskStateInfo& s) const {
  DiskHeader h = header(DiskFileKind::state, s.id, s.chain, s.scope);
  h.position = s.position;
  h.record_bytes = kDiskTokenBytes + (s.tail.empty() ? 0 : options_.layout.kv_block_bytes) +
                   options_.layout.state_bytes;
  h.records = 1;
  return h;
}

Status DiskStore::Impl::may_write() const {
  if (now_.writable || now() >= off_until_ms_) return ok_status();
  return Error{ErrorCode::unavailable, now_.why_not, {}};
}

Error DiskStore::Impl::turn_off(const Error& why) {
  ++now_.write_failures;
  off_until_ms_ = now() + options_.retry.count();
  if (now_.writable) {
    log(LogLevel::warning, "the disk cache does not write for now: " + why.message);
  }
  now_.writable = false;
  now_.why_not = why.message;
  publish();
  return {ErrorCode::unavailable, why.message, {}};
}

void DiskStore::Impl::wrote() {
  if (!now_.writable) log(LogLevel::info, "the disk cache writes again");
  now_.writable = true;
  now_.why_not.clear();
}

Status DiskStore::Impl::commit(IndexBatch batch) {
  for (const DiskId id : touched_) {
    if (const DiskStateInfo* s = map_.state(id)) batch.touched.push_back(s);
  }
  if (batch.empty()) return ok_status();
  if (index_ == nullptr) return Error{ErrorCode::unavailable, "there is no index", {}};
  Status done = index_->commit(batch);
  if (done) touched_.clear();
  measure_index();
  return done;
}

void DiskStore::Impl::set_size(const std::string& name, std::uint64_t bytes) {
  auto& size = sizes_[name];
  now_.bytes += bytes - size;
  size = bytes;
}

void DiskStore::Impl::remove_file(const std::string& name) {
  directory_->remove(name);
  if (const auto it = sizes_.find(name); it != sizes_.end()) {
    now_.bytes -= it->second;
    sizes_.erase(it);
  }
}

void DiskStore::Impl::free_files(const DiskFreed& freed) {
  for (const DiskId id : freed.segments) remove_file(segment_file_name(id));
  for (const ChainEnd& cut : freed.cuts) {
    const std::string name = segment_file_name(cut.segment);
    const std::uint64_t bytes = disk_file_bytes(header_of(map_.segment(cut.segment)), cut.blocks);
    const int fd = ::openat(directory_->fd(), name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    // One that cannot be cut keeps its size, here as there.
    if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0) set_size(name, bytes);
    if (fd >= 0) ::close(fd);
  }
}

void DiskStore::Impl::remove(std::span<const DiskId> states, IndexBatch batch) {
  for (const DiskId id : states) {
    --kind_count(map_.states().at(id).kind);
    const DiskFreed freed = [&] {
      const std::unique_lock lock(map_mutex_);
      return map_.remove(id);
    }();
    batch.states_gone.push_back(id);
    auto& all = batch.freed;
    all.segments.insert(all.segments.end(), freed.segments.begin(), freed.segments.end());
    all.cuts.insert(all.cuts.end(), freed.cuts.begin(), freed.cuts.end());
    touched_.erase(id);
  }
  auto& cuts = batch.freed.cuts;
  std::erase_if(cuts, [&](const ChainEnd& c) {
    const auto& gone = batch.freed.segments;
    return std::find(gone.begin(), gone.end(), c.segment) != gone.end();
  });
  // Without the rows' removal the files go all the same: the next open finds rows without files.
  if (Status done = commit(batch); !done) turn_off(done.error());
  for (const DiskId id : batch.states_gone) remove_file(state_file_name(id));
  free_files(batch.freed);
}

void DiskStore::Impl::forget_where(const std::function<bool(const DiskStateInfo&)>& gone) {
  std::vector<DiskId> ids;
  for (const auto& [id, s] : map_.states()) {
    if (gone(s)) ids.push_back(id);
  }
  if (ids.empty()) return;
  remove(ids);
  // What is forgotten on purpose is to be found nowhere, the index's log included.
  if (index_ != nullptr) (void)index_->checkpoint();
}

void DiskStore::Impl::expire() {
  if (options_.max_age.count() <= 0) return;
  const std::int64_t oldest = now() - options_.max_age.count();
  const auto before = map_.states().size();
  forget_where([&](const DiskStateInfo& s) { return s.last_use_ms < oldest; });
  now_.expired += before - map_.states().size();
  expire_others();
}

void DiskStore::Impl::flush() {
  if (Status done = commit({}); !done) turn_off(done.error());
  measure_index();
}

void DiskStore::Impl::measure_index() {
  now_.index_bytes = 0;
  for (const std::string& name : index_file_names(kIndexName)) {
    struct stat info {};
    if (::fstatat(directory_->fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
      now_.index_bytes += static_cast<std::uint64_t>(info.st_size);
    }
  }
}

void DiskStore::Impl::publish() {
  now_.max_bytes = options_.max_bytes;
  now_.states = map_.states().size();
  now_.segments = map_.segments();
  now_.blocks = map_.blocks();
  std::lock_guard lock(mutex_);
  published_ = now_;
}

DiskStat DiskStore::Impl::stat() const {
  std::lock_guard lock(mutex_);
  return published_;
}

DiskStore::DiskStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DiskStore::~DiskStore() { impl_->flush(); }

void DiskStore::Impl::touch(DiskId id) {
  const std::unique_lock lock(map_mutex_);
  map_.touch(id, now());
  touched_.insert(id);
}

void DiskStore::Impl::forecast(const DiskForecast& forecast) {
  requests_ += forecast.requests;
  if (forecast.prefill.a > 0) prefill_ = forecast.prefill;
  for (const auto& [id, rate] : forecast.rates) {
    if (map_.state(id) == nullptr) continue;
    const std::unique_lock lock(map_mutex_);
    map_.predict(id, rate, requests_);
    touched_.insert(id);
  }
  if (touched_.size() >= kMaxTouched) flush();
}

Result<std::unique_ptr<DiskStore>> DiskStore::open(DiskOptions options) {
  auto opened = DiskRoot::open(options.dir, true);
  if (!opened) return opened.error();
  const std::shared_ptr<const DiskRoot> root = opened.take();
  auto directory =
      DiskDirectory::open(*root, disk_store_name(options.fingerprint, options.layout), true);
  if (!directory) return directory.error();
  auto impl = std::make_unique<Impl>(std::move(options), root, directory.take());
  if (Status loaded = impl->load(); !loaded) return loaded.error();
  impl->publish();
  return std::unique_ptr<DiskStore>(new DiskStore(std::move(impl)));
}

Result<DiskPut> DiskStore::put(const DiskState& state) {
  Result<DiskPut> done = impl_->put(state);
  impl_->publish();
  return done;
}

std::optional<DiskMatch> DiskStore::match(std::string_view scope,
                                          std::span<const std::int32_t> tokens,
                                          std::int32_t max_position) const {
  const auto lock = impl_->lock_map();
  const DiskStateInfo* found = impl_->map().match(scope, tokens, max_position);
  if (found == nullptr) return std::nullopt;
  return DiskMatch{found->id, found->position, found->kind};
}

bool DiskStore::contains(std::string_view scope, std::span<const std::int32_t> tokens) const {
  const auto lock = impl_->lock_map();
  return impl_->map().find(scope, tokens) != nullptr;
}

std::vector<DiskPlace> DiskStore::places(DiskId after, std::size_t count) const {
  const auto lock = impl_->lock_map();
  const DiskMap& map = impl_->map();
  std::vector<DiskPlace> out;
  for (auto it = map.states().upper_bound(after); it != map.states().end(); ++it) {
    if (out.size() == count) break;
    out.push_back({it->first, it->second.scope, map.tokens_of(it->second)});
  }
  return out;
}

void DiskStore::forecast(const DiskForecast& forecast) {
  impl_->forecast(forecast);
  impl_->publish();
}

Status DiskStore::read(DiskId id, const DiskSink& sink) {
  Status done = impl_->read(id, sink);
  impl_->publish();
  return done;
}

void DiskStore::forget(DiskId id) {
  impl_->forget_where([id](const DiskStateInfo& s) { return s.id == id; });
  impl_->publish();
}

void DiskStore::forget_scope(std::string_view scope) {
  impl_->forget_where([scope](const DiskStateInfo& s) { return s.scope == scope; });
  impl_->publish();
}

void DiskStore::expire() {
  impl_->expire();
  impl_->publish();
}

Status DiskStore::purge() {
  Status done = impl_->purge();
  impl_->publish();
  return done;
}

void DiskStore::flush() {
  impl_->flush();
  impl_->publish();
}

std::vector<DiskEntry> DiskStore::entries() const {
  std::vector<DiskEntry> out;
  out.reserve(impl_->map().states().size());
  for (const auto& [id, s] : impl_->map().states()) {
    out.push_back({s.id, s.position, s.kind, s.last_use_ms, impl_->bytes_of(s), s.rate, s.scope,
                   impl_->map().tokens_of(s)});
  }
  return out;
}

Status DiskStore::save_blob(const std::string& name, std::span<const std::byte> bytes) {
  Status done = impl_->save_blob(name, bytes);
  impl_->publish();
  return done;
}

Result<std::vector<std::byte>> DiskStore::load_blob(const std::string& name) {
  auto done = impl_->load_blob(name);
  impl_->publish();
  return done;
}

DiskStat DiskStore::stat() const { return impl_->stat(); }

}  // namespace cairn::engine
