// SPDX-License-Identifier: Apache-2.0
// Writing: room is made, files are written and renamed, then the index and the map learn of them.
#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "engine/cache/disk_store_impl.hpp"
#include "engine/cache/pools.hpp"

namespace cairn::engine {
namespace {

constexpr std::size_t kBlock = model::kBlockTokens;

}  // namespace

std::uint64_t DiskStore::Impl::bytes_of(const DiskMap::Gain& gain) const {
  std::uint64_t bytes =
      gain.blocks * (kDiskTokenBytes + options_.layout.kv_block_bytes + sizeof(DiskChecksum));
  for (const DiskId s : gain.segments) bytes += disk_file_bytes(header_of(map_.segment(s)), 0);
  return bytes;
}

// In tokens while no speed is known; reading is then taken for free.
DiskTerms DiskStore::Impl::terms() const {
  DiskTerms t;
  t.requests = requests_;
  t.prefill = prefill_.a > 0 ? prefill_ : CostModel{};
  t.restore = [this](std::int32_t from, std::int32_t to) {
    if (prefill_.a <= 0) return 0.0;
    const auto blocks = static_cast<std::uint64_t>(blocks_for(to - from));
    return disk_read_seconds(now_,
                             options_.layout.state_bytes + blocks * options_.layout.kv_block_bytes);
  };
  t.bytes = [this](const DiskStateInfo& s) { return bytes_of(s) + bytes_of(map_.gain_of(s)); };
  return t;
}

// How far all files would be beyond the budget. A token that is new to the index takes 4 bytes in
// it and 4 in its log.
std::uint64_t DiskStore::Impl::missing_bytes(std::uint64_t bytes, std::uint64_t tokens) const {
  constexpr std::uint64_t kIndexMargin = 128 << 10U;  // for what a transaction touches beside it
  const std::uint64_t index = now_.index_bytes + 8 * tokens + kIndexMargin;
  const std::uint64_t all =
      now_.bytes + now_.other_bytes + bytes + std::max(kDiskIndexReserve, index);
  return all - std::min(all, options_.max_bytes);
}

Status DiskStore::Impl::make_room(std::uint64_t bytes, std::uint64_t tokens,
                                  const DiskStateInfo* incoming,
                                  const DiskStateInfo* incoming_above) {
  if (missing_bytes(bytes, tokens) == 0) return ok_status();
  const Error none{ErrorCode::no_memory, "the disk cache has no room for it", {}};
  if (bytes + kDiskIndexReserve > options_.max_bytes) return none;
  // Their indexes do not shrink by what was foreseen.
  for (std::uint64_t before = 0; now_.other_bytes != before && missing_bytes(bytes, tokens) > 0;) {
    before = now_.other_bytes;
    shrink_others(missing_bytes(bytes, tokens));
  }
  const std::uint64_t need = missing_bytes(bytes, tokens);
  if (need == 0) return ok_status();
  DiskTerms terms = this->terms();
  if (incoming != nullptr) {
    terms.bytes = [all = terms.bytes, incoming, bytes](const DiskStateInfo& s) {
      return &s == incoming ? bytes : all(s);
    };
  }
  DiskWorth worth(map_, std::move(terms), incoming, incoming_above);
  using Entry = std::tuple<double, std::int64_t, DiskId>;  // worth when listed, last use
  std::vector<Entry> listed;
  for (const auto& [id, s] : map_.states()) listed.emplace_back(worth.of(id), s.last_use_ms, id);
  std::priority_queue least(std::greater<Entry>{}, std::move(listed));

  std::uint64_t got = 0;
  std::vector<DiskId> victims;
  DiskMap::Preview preview(map_);
  while (got < need && !least.empty()) {
    auto [then, last_use, id] = least.top();
    least.pop();
    // What goes leaves its requests to those around it: worth only grows.
    if (const double now = worth.of(id); now > then) {
      least.emplace(now, last_use, id);
      continue;
    }
    if (incoming != nullptr && then > worth.of(incoming->id)) break;
    worth.remove(id);
    got += bytes_of(*map_.state(id)) + bytes_of(preview.remove(id));
    victims.push_back(id);
  }
  if (got < need) return none;
  now_.evicted += victims.size();
  remove(victims);
  return ok_status();
}

Status DiskStore::Impl::write_objects(const DiskState& in, const DiskSegment& segment,
                                      const DiskStateInfo& state) {
  std::vector<DiskRename> names;
  Status done = ok_status();
  const auto write = [&](const std::string& name, const DiskHeader& header,
                         std::span<const DiskRecord> records) {
    names.push_back({temporary_name(name), name});
    done = write_disk_file(directory_->fd(), names.back().from, header, records, stage_);
    return done.ok();
  };
  IndexBatch batch;
  bool going = true;
  if (!segment.tokens.empty()) {
    const auto first = static_cast<std::size_t>(map_.tokens_in(segment.parent)) / kBlock;
    std::vector<DiskRecord> records(segment.tokens.size() / kBlock);
    for (std::size_t b = 0; b < records.size(); ++b) {
      records[b] = {std::as_bytes(std::span(segment.tokens).subspan(b * kBlock, kBlock)),
                    std::span(in.blocks[first + b], options_.layout.kv_block_bytes),
                    {}};
    }
    going = write(segment_file_name(segment.id), header_of(segment), records);
    batch.segments.push_back(&segment);
  }
  if (going) {
    const DiskTokens tail = disk_tail_tokens(state);
    DiskRecord record{std::as_bytes(std::span(tail)), {}, in.state};
    if (!state.tail.empty()) record[1] = {in.blocks.back(), options_.layout.kv_block_bytes};
    going = write(state_file_name(state.id), header_of(state), {&record, 1});
    batch.states.push_back(&state);
  }
  if (going) done = rename_disk_files(directory_->fd(), names);
  if (done) done = commit(std::move(batch));
  if (done) {
    wrote();
    return done;
  }
  for (const DiskRename& n : names) {
    directory_->remove(n.from);
    directory_->remove(n.to);
  }
  return turn_off(done.error());
}

Result<DiskPut> DiskStore::Impl::put(const DiskState& in) {
  check(!in.tokens.empty() && in.blocks.size() == (in.tokens.size() + kBlock - 1) / kBlock &&
            in.state.size() == options_.layout.state_bytes && in.scope.size() <= kMaxDiskName,
        "a state for the disk has the sizes of its layout");
  const auto begin = std::chrono::steady_clock::now();
  if (Status may = may_write(); !may) return may.error();
  expire();
  if (const DiskStateInfo* found = map_.find(in.scope, in.tokens)) {
    touch(found->id);
    forecast({0, {.a = 0}, {{found->id, in.rate}}});
    return DiskPut{found->id, true, 0};
  }
  const ChainEnd shared = map_.match_chain(in.scope, in.tokens);
  const auto from = static_cast<std::size_t>(map_.tokens_in(shared));
  const std::size_t whole = in.tokens.size() / kBlock * kBlock;
  DiskSegment segment{next_id_++,
                      shared,
                      std::string(in.scope),
                      {in.tokens.begin() + static_cast<std::ptrdiff_t>(from),
                       in.tokens.begin() + static_cast<std::ptrdiff_t>(whole)}};
  const auto new_blocks = static_cast<std::uint32_t>(segment.tokens.size() / kBlock);
  DiskStateInfo state;
  state.id = next_id_++;
  state.chain = new_blocks > 0 ? ChainEnd{segment.id, new_blocks} : shared;
  state.scope = segment.scope;
  state.tail.assign(in.tokens.begin() + static_cast<std::ptrdiff_t>(whole), in.tokens.end());
  state.position = static_cast<std::int32_t>(in.tokens.size());
  state.kind = in.kind;
  state.last_use_ms = now();
  state.rate = in.rate;
  state.rated_at = requests_;
  const std::uint64_t segment_bytes =
      new_blocks > 0 ? disk_file_bytes(header_of(segment), new_blocks) : 0;
  const std::uint64_t bytes = segment_bytes + bytes_of(state);
  const DiskStateInfo* above = map_.match(in.scope, in.tokens, state.position - 1);

  // Room must not be made at the price of the blocks that this state shares.
  {
    const std::unique_lock lock(map_mutex_);
    map_.pin(shared);
  }
  Status done = make_room(bytes, segment.tokens.size(), &state, above);
  if (done) done = write_objects(in, segment, state);
  const DiskId id = state.id;
  if (done) {
    if (new_blocks > 0) set_size(segment_file_name(segment.id), segment_bytes);
    set_size(state_file_name(id), bytes - segment_bytes);
    ++kind_count(state.kind);
    const std::unique_lock lock(map_mutex_);
    if (new_blocks > 0) map_.add(std::move(segment));
    map_.add(std::move(state));
    ++now_.puts;
    now_.written_bytes += bytes;
    now_.write_seconds += seconds_since(begin);
  }
  IndexBatch unpinned;
  {
    const std::unique_lock lock(map_mutex_);
    unpinned.freed = map_.unpin(shared);
  }
  if (!unpinned.empty()) remove({}, std::move(unpinned));
  if (!done) return done.error();
  return DiskPut{id, false, bytes};
}

Status DiskStore::Impl::save_blob(const std::string& name, std::span<const std::byte> bytes) {
  check(valid_blob_name(name), "a blob's name is plain");
  if (Status may = may_write(); !may) return may;
  DiskHeader header;
  header.kind = DiskFileKind::blob;
  header.fingerprint = fingerprint_;
  header.record_bytes = bytes.size();
  header.records = 1;
  header.name = name;
  const std::uint64_t size = disk_file_bytes(header, 1);
  const DiskRename names{temporary_name(blob_file_name(name)), blob_file_name(name)};
  if (Status room = make_room(size, 0, nullptr, nullptr); !room) return room;
  const DiskRecord record{bytes, {}, {}};
  Status done = write_disk_file(directory_->fd(), names.from, header, {&record, 1}, stage_);
  if (done) done = rename_disk_files(directory_->fd(), {&names, 1});
  if (!done) {
    directory_->remove(names.from);
    return turn_off(done.error());
  }
  wrote();
  set_size(names.to, size);
  return done;
}

}  // namespace cairn::engine
