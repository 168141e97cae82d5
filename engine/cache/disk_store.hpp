// SPDX-License-Identifier: Apache-2.0
// The disk tier: recurrent states and the KV of their prefixes in files of one directory, found
// again by tokens after a restart. What is read back is bit for bit what was written, or an error.
//
// A state's file holds its tail of fewer than 16 tokens and their KV; whole blocks lie in segments
// that states share. Every file is complete, checked and synced before its row appears in the
// index.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/cache/disk_map.hpp"
#include "engine/cache/fingerprint.hpp"
#include "engine/placement/dp.hpp"
#include "model/net/backend.hpp"

namespace cairn::engine {

/// Of max_bytes for the index and its log while these need no more.
inline constexpr std::uint64_t kDiskIndexReserve = 1 << 20U;

struct DiskOptions {
  std::string dir;
  /// Of all files under `dir`, those of other fingerprints included: these go first, and the least
  /// recently used of them. kDiskIndexReserve is kept for the index.
  std::uint64_t max_bytes = 0;
  std::chrono::milliseconds max_age{0};  // since the last use; 0: no limit
  Fingerprint fingerprint;
  model::MemoryLayout layout;
  // Pointers into it are a device's: their bytes pass through host memory, a batch at a time.
  std::shared_ptr<model::Arena> arena = nullptr;
  std::chrono::milliseconds retry{30'000};  // after a failed write
  std::function<std::int64_t()> clock_ms;   // Unix time; unset: the system's
};

/// A state to write. Nothing of it may change during the call.
struct DiskState {
  std::string_view scope;                // who may find it, at most 1,024 bytes; compared
  std::span<const std::int32_t> tokens;  // [position]
  StateKind kind = StateKind::planned;
  std::span<const std::byte> state;          // [layout.state_bytes]
  std::span<const std::byte* const> blocks;  // [ceil(position / 16)], layout.kv_block_bytes each
  double rate = 0;  // of requests predicted to come this far, per request served; 0: unknown
};

/// What has become of predictions. A rate decays with the requests served since it was predicted.
struct DiskForecast {
  std::uint64_t requests = 0;                    // served since the last forecast
  CostModel prefill{.a = 0};                     // seconds; a = 0: not known
  std::vector<std::pair<DiskId, double>> rates;  // as DiskState::rate; states that went are passed
};

/// Where a stored state lies.
struct DiskPlace {
  DiskId id = 0;
  std::string scope;
  std::vector<std::int32_t> tokens;  // [position]
};

struct DiskPut {
  DiskId id = 0;
  bool existed = false;  // nothing was written
  std::uint64_t bytes = 0;
};

struct DiskMatch {
  DiskId id = 0;
  std::int32_t position = 0;
  StateKind kind = StateKind::planned;
};

/// Where a state is read to.
struct DiskSink {
  std::span<std::byte> state;          // [layout.state_bytes]
  std::span<std::byte* const> blocks;  // [ceil(position / 16) - first_block]
  std::int32_t first_block = 0;        // whole blocks before it are not wanted
};

/// A state as a restart wants to remember it.
struct DiskEntry {
  DiskId id = 0;
  std::int32_t position = 0;
  StateKind kind = StateKind::planned;
  std::int64_t last_use_ms = 0;
  std::uint64_t bytes = 0;  // of the state's own file: blocks may be shared
  double rate = 0;          // as last predicted
  std::string scope;
  std::vector<std::int32_t> tokens;  // [position]
};

struct DiskStat {
  std::uint64_t bytes = 0, max_bytes = 0;  // bytes: of the files, but for the index
  std::uint64_t index_bytes = 0;           // with its log
  std::uint64_t other_bytes = 0;           // of stores of other fingerprints
  std::uint64_t states = 0, segments = 0, blocks = 0;
  std::uint64_t states_by_kind[kStateKinds] = {};
  std::uint64_t puts = 0, reads = 0, written_bytes = 0, read_bytes = 0;
  double write_seconds = 0, read_seconds = 0;
  std::uint64_t evicted = 0, expired = 0;
  std::uint64_t refused_corrupt = 0;  // files: torn, flipped, cut
  std::uint64_t refused_foreign = 0;  // files of another fingerprint or format
  std::uint64_t refused_missing = 0;  // files that a row promised
  std::uint64_t swept = 0;            // files without a row, at open
  std::uint64_t write_failures = 0;
  bool writable = true;
  std::string why_not;  // the last write failure, while not writable
};

/// What reading or writing so many bytes takes, as measured so far; assumed before that.
double disk_read_seconds(const DiskStat& stat, std::uint64_t bytes);
double disk_write_seconds(const DiskStat& stat, std::uint64_t bytes);

/// One thread at a time; match(), contains(), places() and stat() from any. Never throws for what
/// disk or files do: a failed write turns writing off until `retry` has passed, a wrong file is
/// deleted with all that need it.
class DiskStore {
 public:
  /// Takes the directory for this process. A fingerprint that is new to it starts empty beside the
  /// others, and the log says what differs. A damaged index costs its content. Errors as
  /// DiskRoot::open.
  static Result<std::unique_ptr<DiskStore>> open(DiskOptions options);
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;

  /// Writes a state and those of its blocks that are not there yet, making room first: what is
  /// predicted to save the least prefill per request and byte goes (disk_worth.hpp), of equals the
  /// least recently used; never what is worth more than the new state. Errors: no_memory (does not
  /// fit at that price), unavailable (writing is off).
  Result<DiskPut> put(const DiskState& state);
  void forecast(const DiskForecast& forecast);

  /// The deepest state of at most `max_position` tokens of this prompt. Touches no file and waits
  /// for none.
  std::optional<DiskMatch> match(std::string_view scope, std::span<const std::int32_t> tokens,
                                 std::int32_t max_position) const;
  /// Whether the whole of `tokens` is the path of a stored state.
  bool contains(std::string_view scope, std::span<const std::int32_t> tokens) const;

  /// The next `count` states in the order of their ids.
  std::vector<DiskPlace> places(DiskId after, std::size_t count) const;

  /// Reads and verifies. The sink's content is undefined after an error. Errors: not_found (no such
  /// state any more), bad_request (a file was wrong: it is deleted), unavailable.
  Status read(DiskId id, const DiskSink& sink);

  void forget(DiskId id);
  void forget_scope(std::string_view scope);
  /// Deletes what was not used for max_age (under other fingerprints at most an hour later).
  void expire();
  /// Removes everything, the indexes and other fingerprints' files included.
  Status purge();
  /// Writes down when states were last used.
  void flush();

  std::vector<DiskEntry> entries() const;

  /// Small things beside the states (demand tables); `name` as valid_blob_name says. Saved whole or
  /// not at all.
  Status save_blob(const std::string& name, std::span<const std::byte> bytes);
  /// Errors: not_found, bad_request (it was wrong and is deleted), unavailable.
  Result<std::vector<std::byte>> load_blob(const std::string& name);

  DiskStat stat() const;

 private:
  class Impl;
  explicit DiskStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The name of the sub-directory that holds the files of these.
std::string disk_store_name(const Fingerprint& fingerprint, const model::MemoryLayout& layout);

/// One store of a directory that no process uses: for `cairn cache stat`. Deletes nothing.
struct DiskScan {
  std::string fingerprint;  // text form; "" when it was never used
  std::string problem;      // why nothing is known but the bytes; "" where all is
  std::uint64_t bytes = 0, index_bytes = 0;
  std::uint64_t states = 0, segments = 0, tokens = 0;
  std::int64_t oldest_use_ms = 0, newest_use_ms = 0;  // Unix time; 0 without states
};
/// One per fingerprint.
Result<std::vector<DiskScan>> scan_directory(const std::string& dir);

/// Takes the directory and removes every file of the cache. Returns their bytes.
Result<std::uint64_t> purge_directory(const std::string& dir);

}  // namespace cairn::engine
