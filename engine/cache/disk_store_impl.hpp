// SPDX-License-Identifier: Apache-2.0
// The inside of DiskStore, for its .cpp files.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/cache/disk_directory.hpp"
#include "engine/cache/disk_file.hpp"
#include "engine/cache/disk_index.hpp"
#include "engine/cache/disk_stage.hpp"
#include "engine/cache/disk_store.hpp"
#include "engine/cache/disk_worth.hpp"

namespace cairn::engine {

/// The tokens of one block as they lie in a record.
using DiskTokens = std::array<std::int32_t, model::kBlockTokens>;
inline constexpr std::size_t kDiskTokenBytes = sizeof(DiskTokens);

inline constexpr std::size_t kMaxTouched = 256;  // states, before they are written down

/// A tail's tokens in its state's record: -1 past the end.
DiskTokens disk_tail_tokens(const DiskStateInfo& state);

/// What is stored under "fingerprint" in the index of a store.
inline constexpr const char* kFingerprintKey = "fingerprint";
std::string disk_store_text(const Fingerprint& fingerprint, const model::MemoryLayout& layout);

double seconds_since(std::chrono::steady_clock::time_point begin);

class DiskStore::Impl {
 public:
  /// `directory` lies below `root`.
  Impl(DiskOptions options, std::shared_ptr<const DiskRoot> root,
       std::unique_ptr<DiskDirectory> directory);

  // disk_store_open.cpp
  Status load();
  Status purge();

  // disk_store_others.cpp
  /// A store of another fingerprint, with the sizes that it names itself, to be made smaller; null:
  /// nothing could be made of it, and it is deleted.
  static std::unique_ptr<Impl> open_other(const DiskOptions& options,
                                          const std::shared_ptr<const DiskRoot>& root,
                                          const std::string& name);

  // disk_store_write.cpp
  Result<DiskPut> put(const DiskState& in);
  Status save_blob(const std::string& name, std::span<const std::byte> bytes);

  // disk_store_read.cpp
  Status read(DiskId id, const DiskSink& sink);
  Result<std::vector<std::byte>> load_blob(const std::string& name);

  // disk_store.cpp
  /// Removes states, what only they needed, and whatever `batch` names already.
  void remove(std::span<const DiskId> states, IndexBatch batch = {});
  void forget_where(const std::function<bool(const DiskStateInfo&)>& gone);
  void expire();
  void flush();

  void touch(DiskId id);
  void forecast(const DiskForecast& forecast);
  /// Of the state's own file.
  std::uint64_t bytes_of(const DiskStateInfo& state) const {
    return disk_file_bytes(header_of(state), 1);
  }
  const DiskMap& map() const { return map_; }
  /// What match() of any thread needs.
  std::shared_lock<std::shared_mutex> lock_map() const { return std::shared_lock(map_mutex_); }
  DiskStat stat() const;
  /// Copies what the owner's thread knows to where stat() looks.
  void publish();

 private:
  // disk_store_open.cpp
  Status open_index();
  Status check_fingerprint();
  void delete_all(const std::string& why);
  Result<std::vector<DirectoryFile>> delete_files();
  Status load_index();
  Status sweep();
  void sweep_segment(const DirectoryFile& file);
  void sweep_state(const DirectoryFile& file);
  void sweep_blob(const DirectoryFile& file);

  // disk_store_others.cpp
  std::string own_text() const { return disk_store_text(options_.fingerprint, options_.layout); }
  std::string own_name() const { return disk_store_name(options_.fingerprint, options_.layout); }
  void find_others();
  void tell_of_others() const;
  /// Makes other stores smaller by `need` bytes or more where they have them, the store that was
  /// used last last, in each the states that were used least recently first.
  void shrink_others(std::uint64_t need);
  void expire_others();
  void purge_others();
  /// Of states in the order of their last use. Returns whether any state is left.
  bool free_oldest(std::uint64_t need);

  // disk_store_write.cpp
  std::uint64_t missing_bytes(std::uint64_t bytes, std::uint64_t tokens) const;
  /// For files of so many bytes, with so many tokens that are new to the index.
  Status make_room(std::uint64_t bytes, std::uint64_t tokens, const DiskStateInfo* incoming,
                   const DiskStateInfo* incoming_above);
  DiskTerms terms() const;
  std::uint64_t bytes_of(const DiskMap::Gain& gain) const;
  Status write_objects(const DiskState& in, const DiskSegment& segment, const DiskStateInfo& state);

  // disk_store_read.cpp
  Status read_segment(const ChainEnd& part, const DiskSink& sink);
  Status read_state(const DiskStateInfo& state, const DiskSink& sink);
  /// Counts a wrong file. False: it may be right, only the system refused.
  bool count_refusal(const Error& error);

  // disk_store.cpp
  void free_files(const DiskFreed& freed);
  void remove_file(const std::string& name);
  void set_size(const std::string& name, std::uint64_t bytes);

  DiskHeader header(DiskFileKind kind, DiskId id, const ChainEnd& chain,
                    const std::string& scope) const;
  DiskHeader header_of(const DiskSegment& segment) const;
  DiskHeader header_of(const DiskStateInfo& state) const;

  std::uint64_t& kind_count(StateKind kind) {
    return now_.states_by_kind[static_cast<std::size_t>(kind)];
  }
  std::int64_t now() const;
  Status may_write() const;
  Error turn_off(const Error& why);
  void wrote();
  Status commit(IndexBatch batch);
  void measure_index();

  DiskOptions options_;
  DiskStage stage_;
  FingerprintHash fingerprint_;
  std::shared_ptr<const DiskRoot> root_;
  std::unique_ptr<DiskDirectory> directory_;
  std::unique_ptr<DiskIndex> index_;  // null when it could not be opened again after a purge
  DiskMap map_;                       // changed under the mutex, so that its owner may read without
  mutable std::shared_mutex map_mutex_;
  std::unordered_map<std::string, std::uint64_t> sizes_;  // of every file but the index's
  DiskId next_id_ = 1;
  std::unordered_set<DiskId> touched_;  // last use or rate not written down yet
  std::uint64_t requests_ = 0;          // told of, over all runs of which a rate is left
  CostModel prefill_{.a = 0};           // seconds, as last told; a = 0: not known
  std::int64_t off_until_ms_ = 0;
  bool foreign_ = false;  // written under another fingerprint: its blobs are not looked into
  struct Other {
    std::string name, fingerprint;
    std::int64_t last_use_ms = 0;  // 0: without a state, or not to be read
    std::uint64_t bytes = 0;       // index and all
  };
  std::vector<Other> others_;  // ascending last use
  std::int64_t others_expired_ms_ = 0;

  DiskStat now_;  // the owner's thread's
  mutable std::mutex mutex_;
  DiskStat published_;
};

}  // namespace cairn::engine
