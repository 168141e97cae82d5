// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_index.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/failpoints.hpp"
#include "model/net/backend.hpp"

namespace cairn::engine {
namespace {

constexpr int kSchema = 2;
constexpr std::uint64_t kMostLogBytes = 256 << 10U;  // then it is brought into the file

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS segments(
  id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, parent_blocks INTEGER NOT NULL,
  scope BLOB NOT NULL, tokens BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS states(
  id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, blocks INTEGER NOT NULL, scope BLOB NOT NULL,
  tail BLOB NOT NULL, position INTEGER NOT NULL, kind TEXT NOT NULL, last_use_ms INTEGER NOT NULL,
  rate REAL NOT NULL, rated_at INTEGER NOT NULL);
)";

// EXCLUSIVE keeps the log's index in memory: no third file, and no second process. NORMAL: a power
// failure may cost the last rows (their files are then swept), never the order of what is kept.
// Deleted pages leave the file, so that it shrinks with what is stored; checkpoints are our own.
constexpr const char* kPragmas = R"(
PRAGMA auto_vacuum = FULL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA secure_delete = ON;
PRAGMA temp_store = MEMORY;
)";

Error sqlite_error(sqlite3* db, int code) {
  const bool damaged = (code & 0xFF) == SQLITE_CORRUPT || (code & 0xFF) == SQLITE_NOTADB ||
                       (code & 0xFF) == SQLITE_ERROR;
  return {damaged ? ErrorCode::bad_request : ErrorCode::unavailable,
          std::string("the index: ") + (db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code)),
          {}};
}

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct Finalize {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};

/// A prepared statement; bind in order, then step or run. After a failure every call does nothing.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) : db_(db) {
    sqlite3_stmt* raw = nullptr;
    code_ = sqlite3_prepare_v3(db, sql, -1, 0, &raw, nullptr);
    stmt_.reset(raw);
  }

  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(std::int64_t value) {
    if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(stmt_.get(), ++bound_, value);
    return *this;
  }
  Statement& bind(double value) {
    if (code_ == SQLITE_OK) code_ = sqlite3_bind_double(stmt_.get(), ++bound_, value);
    return *this;
  }
  Statement& bind_text(std::string_view text) {
    if (code_ == SQLITE_OK) {
      code_ = sqlite3_bind_text(stmt_.get(), ++bound_, text.data(), static_cast<int>(text.size()),
                                SQLITE_TRANSIENT);
    }
    return *this;
  }
  Statement& bind_blob(const void* data, std::size_t bytes) {
    // A null pointer would bind NULL, which the tables do not take.
    if (code_ == SQLITE_OK) {
      code_ = sqlite3_bind_blob64(stmt_.get(), ++bound_, bytes == 0 ? "" : data, bytes,
                                  SQLITE_TRANSIENT);
    }
    return *this;
  }
  Statement& bind_tokens(const std::vector<std::int32_t>& tokens) {
    return bind_blob(tokens.data(), tokens.size() * sizeof(std::int32_t));
  }

  /// True: a row is there to be read.
  bool step() {
    if (code_ != SQLITE_OK) return false;
    const int got = sqlite3_step(stmt_.get());
    if (got == SQLITE_ROW) return true;
    if (got != SQLITE_DONE) code_ = got;
    return false;
  }
  /// Executes, and is ready to be bound again.
  bool run() {
    step();
    if (code_ == SQLITE_OK) {
      sqlite3_reset(stmt_.get());
      bound_ = 0;
    }
    return code_ == SQLITE_OK;
  }

  std::int64_t integer(int column) const { return sqlite3_column_int64(stmt_.get(), column); }
  double real(int column) const { return sqlite3_column_double(stmt_.get(), column); }
  std::string text(int column) const {
    const void* data = sqlite3_column_blob(stmt_.get(), column);
    const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(stmt_.get(), column));
    return bytes == 0 ? std::string() : std::string(static_cast<const char*>(data), bytes);
  }
  std::vector<std::int32_t> tokens(int column) const {
    const std::string bytes = text(column);
    std::vector<std::int32_t> out(bytes.size() / sizeof(std::int32_t));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(std::int32_t));
    return out;
  }

  bool ok() const { return code_ == SQLITE_OK; }
  Status status() const { return ok() ? ok_status() : Status(sqlite_error(db_, code_)); }

 private:
  sqlite3* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> stmt_;
  int code_ = SQLITE_OK;
  int bound_ = 0;
};

Status execute(sqlite3* db, const char* sql) {
  const int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? ok_status() : Status(sqlite_error(db, code));
}

// Kinds are stored by name, so that a new one in between changes none of the old rows.
StateKind kind_named(const std::string& name) {
  for (int i = 0; i < kStateKinds; ++i) {
    const auto kind = static_cast<StateKind>(i);
    if (name == to_string(kind)) return kind;
  }
  return StateKind::planned;
}

// Numbers of a damaged row may be anything; what does not fit its type fits no chain either.
ChainEnd chain_of(std::int64_t segment, std::int64_t blocks) {
  const bool small = blocks >= 0 && blocks <= 0x7FFFFFFF;
  return {static_cast<DiskId>(segment), small ? static_cast<std::uint32_t>(blocks) : 0xFFFFFFFFU};
}

double rate_of(double stored) { return std::isfinite(stored) && stored > 0 ? stored : 0; }

}  // namespace

struct DiskIndex::Impl {
  std::unique_ptr<sqlite3, CloseDb> db;
  std::string path;

  std::uint64_t log_bytes() const;
  Status insert(const IndexBatch& batch);
  Status remove(const IndexBatch& batch);
};

std::uint64_t DiskIndex::Impl::log_bytes() const {
  struct stat info {};
  const bool there = ::stat((path + "-wal").c_str(), &info) == 0;
  return there ? static_cast<std::uint64_t>(info.st_size) : 0;
}

DiskIndex::DiskIndex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DiskIndex::~DiskIndex() = default;

bool IndexBatch::empty() const {
  return segments.empty() && states.empty() && states_gone.empty() && touched.empty() &&
         freed.segments.empty() && freed.cuts.empty();
}

std::vector<std::string> index_file_names(const std::string& name) {
  return {name, name + "-wal", name + "-shm", name + "-journal"};
}

Result<std::unique_ptr<DiskIndex>> DiskIndex::open(const std::string& path) {
  // SQLite gives its log the mode of the file it finds.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return Error{
        ErrorCode::unavailable, "cannot open the index: " + std::string(strerror(errno)), {}};
  }
  ::close(fd);
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  impl->db.reset(raw);
  if (code != SQLITE_OK) return sqlite_error(raw, code);
  sqlite3_extended_result_codes(raw, 1);

  Status made = execute(raw, kPragmas);
  if (!made) return made.error();
  Statement version(raw, "PRAGMA user_version");
  const std::int64_t schema = version.step() ? version.integer(0) : 0;
  if (!version.ok()) return version.status().error();
  if (schema != 0 && schema != kSchema) {
    return Error{ErrorCode::bad_request, "the index is of another version", {}};
  }
  made = execute(raw, kTables);
  if (made) made = execute(raw, ("PRAGMA user_version = " + std::to_string(kSchema)).c_str());
  if (!made) return made.error();
  return std::unique_ptr<DiskIndex>(new DiskIndex(std::move(impl)));
}

Result<std::string> DiskIndex::meta(const std::string& key) const {
  Statement get(impl_->db.get(), "SELECT value FROM meta WHERE key = ?");
  std::string value = get.bind_text(key).step() ? get.text(0) : std::string();
  if (!get.ok()) return get.status().error();
  return value;
}

Status DiskIndex::set_meta(const std::string& key, const std::string& value) {
  Statement set(impl_->db.get(), "INSERT OR REPLACE INTO meta VALUES(?, ?)");
  set.bind_text(key).bind_text(value).run();
  return set.status();
}

Result<DiskId> DiskIndex::load(DiskMap& map, std::uint64_t* rows_refused) {
  DiskId last = 0;
  IndexBatch wrong;
  Statement segments(impl_->db.get(),
                     "SELECT id, parent, parent_blocks, scope, tokens FROM segments ORDER BY id");
  while (segments.step()) {
    DiskSegment s;
    s.id = static_cast<DiskId>(segments.integer(0));
    s.parent = chain_of(segments.integer(1), segments.integer(2));
    s.scope = segments.text(3);
    s.tokens = segments.tokens(4);
    last = std::max(last, s.id);
    if (map.fits(s)) {
      map.add(std::move(s));
    } else {
      wrong.freed.segments.push_back(s.id);
    }
  }
  if (!segments.ok()) return segments.status().error();
  Statement states(impl_->db.get(),
                   "SELECT id, segment, blocks, scope, tail, position, kind, last_use_ms, "
                   "rate, rated_at FROM states ORDER BY id");
  while (states.step()) {
    DiskStateInfo s;
    s.id = static_cast<DiskId>(states.integer(0));
    s.chain = chain_of(states.integer(1), states.integer(2));
    s.scope = states.text(3);
    s.tail = states.tokens(4);
    s.position = static_cast<std::int32_t>(states.integer(5));
    s.kind = kind_named(states.text(6));
    s.last_use_ms = states.integer(7);
    s.rate = rate_of(states.real(8));
    s.rated_at = static_cast<std::uint64_t>(std::max<std::int64_t>(states.integer(9), 0));
    last = std::max(last, s.id);
    if (map.fits(s)) {
      map.add(std::move(s));
    } else {
      wrong.states_gone.push_back(s.id);
    }
  }
  if (!states.ok()) return states.status().error();
  *rows_refused += wrong.freed.segments.size() + wrong.states_gone.size();
  if (!wrong.empty()) {
    if (Status removed = commit(wrong); !removed) return removed.error();
  }
  return last;
}

Status DiskIndex::Impl::insert(const IndexBatch& batch) {
  Statement segment(db.get(), "INSERT INTO segments VALUES(?, ?, ?, ?, ?)");
  for (const DiskSegment* s : batch.segments) {
    segment.bind(s->id).bind(s->parent.segment).bind(std::int64_t{s->parent.blocks});
    if (!segment.bind_blob(s->scope.data(), s->scope.size()).bind_tokens(s->tokens).run()) break;
  }
  if (!segment.ok()) return segment.status();
  Statement state(db.get(), "INSERT INTO states VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const DiskStateInfo* s : batch.states) {
    state.bind(s->id).bind(s->chain.segment).bind(std::int64_t{s->chain.blocks});
    state.bind_blob(s->scope.data(), s->scope.size()).bind_tokens(s->tail);
    state.bind(std::int64_t{s->position}).bind_text(to_string(s->kind)).bind(s->last_use_ms);
    state.bind(s->rate).bind(s->rated_at);
    if (!state.run()) break;
  }
  if (!state.ok()) return state.status();
  Statement touch(db.get(),
                  "UPDATE states SET last_use_ms = ?, rate = ?, rated_at = ? WHERE id = ?");
  for (const DiskStateInfo* s : batch.touched) {
    if (!touch.bind(s->last_use_ms).bind(s->rate).bind(s->rated_at).bind(s->id).run()) break;
  }
  return touch.status();
}

Status DiskIndex::Impl::remove(const IndexBatch& batch) {
  Statement state(db.get(), "DELETE FROM states WHERE id = ?");
  for (const DiskId id : batch.states_gone) {
    if (!state.bind(id).run()) break;
  }
  if (!state.ok()) return state.status();
  Statement segment(db.get(), "DELETE FROM segments WHERE id = ?");
  for (const DiskId id : batch.freed.segments) {
    if (!segment.bind(id).run()) break;
  }
  if (!segment.ok()) return segment.status();
  Statement cut(db.get(), "UPDATE segments SET tokens = substr(tokens, 1, ?) WHERE id = ?");
  for (const ChainEnd& c : batch.freed.cuts) {
    const auto bytes = std::int64_t{c.blocks} * model::kBlockTokens * 4;
    if (!cut.bind(bytes).bind(c.segment).run()) break;
  }
  return cut.status();
}

Status DiskIndex::commit(const IndexBatch& batch) {
  sqlite3* db = impl_->db.get();
  if (hit_failpoint("disk.index")) return sqlite_error(nullptr, SQLITE_FULL);
  Status status = execute(db, "BEGIN IMMEDIATE");
  if (!status) return status;
  status = impl_->remove(batch);
  if (status) status = impl_->insert(batch);
  if (status) status = execute(db, "COMMIT");
  // SQLite may have rolled back by itself: a second time is an error that says nothing.
  if (!status) sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
  // One that cannot be made now is made after the next transaction.
  if (status && impl_->log_bytes() > kMostLogBytes) (void)checkpoint();
  return status;
}

Status DiskIndex::checkpoint() {
  sqlite3* db = impl_->db.get();
  const int code =
      sqlite3_wal_checkpoint_v2(db, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  return code == SQLITE_OK ? ok_status() : Status(sqlite_error(db, code));
}

}  // namespace cairn::engine
