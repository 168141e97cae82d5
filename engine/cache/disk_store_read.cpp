// SPDX-License-Identifier: Apache-2.0
// Reading: every byte is checked, tokens are compared, and what is wrong is deleted with all that
// needs it.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/log.hpp"
#include "engine/cache/disk_store_impl.hpp"

namespace cairn::engine {
namespace {

constexpr std::size_t kBlock = model::kBlockTokens;

}  // namespace

Status DiskStore::Impl::read_segment(const ChainEnd& part, const DiskSink& sink) {
  const DiskSegment& segment = map_.segment(part.segment);
  const auto before = static_cast<std::uint32_t>(map_.tokens_in(segment.parent)) / kBlock;
  const auto skip = static_cast<std::uint32_t>(sink.first_block);
  if (before + part.blocks <= skip) return ok_status();
  const auto first = static_cast<std::uint32_t>(skip > before ? skip - before : 0);

  // Whoever needs more than the first `right` blocks goes.
  const auto refuse = [&](const Error& error, std::uint32_t right) {
    if (count_refusal(error)) remove(map_.states_beyond({part.segment, right}));
    return Status(error);
  };
  const std::string name = segment_file_name(segment.id);
  Result<DiskReader> file = DiskReader::open(directory_->fd(), name, fingerprint_);
  if (!file) return refuse(file.error(), 0);
  DiskHeader expected = header_of(segment);
  expected.records = file->header().records;  // as written, before any cut
  if (file->header() != expected) {
    return refuse({ErrorCode::bad_request, name + ": belongs to something else", {}}, 0);
  }
  std::vector<DiskTokens> tokens(part.blocks - first);
  std::vector<DiskRecordSink> sinks(tokens.size());
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    std::byte* kv = sink.blocks[before + first + i - skip];
    sinks[i] = {std::as_writable_bytes(std::span(tokens[i])),
                std::span(kv, options_.layout.kv_block_bytes),
                {}};
  }
  std::uint32_t good = 0;
  if (Status done = file->read(first, sinks, stage_, &good); !done) {
    return refuse(done.error(), first + good);
  }
  if (std::memcmp(tokens.data(), segment.tokens.data() + first * kBlock,
                  tokens.size() * kDiskTokenBytes) != 0) {
    return refuse({ErrorCode::bad_request, name + ": holds other tokens than the index says", {}},
                  0);
  }
  now_.read_bytes += tokens.size() * file->header().record_bytes;
  return ok_status();
}

Status DiskStore::Impl::read_state(const DiskStateInfo& state, const DiskSink& sink) {
  const auto refuse = [&](Error error) {
    const DiskId id = state.id;
    if (count_refusal(error)) remove({&id, 1});
    return Status(std::move(error));
  };
  const std::string name = state_file_name(state.id);
  Result<DiskReader> file = DiskReader::open(directory_->fd(), name, fingerprint_);
  if (!file) return refuse(file.error());
  if (file->header() != header_of(state)) {
    return refuse({ErrorCode::bad_request, name + ": belongs to something else", {}});
  }
  DiskTokens tail;
  DiskRecordSink record{std::as_writable_bytes(std::span(tail)), {}, sink.state};
  if (!state.tail.empty()) record[1] = {sink.blocks.back(), options_.layout.kv_block_bytes};
  std::uint32_t good = 0;
  if (Status done = file->read(0, {&record, 1}, stage_, &good); !done) return refuse(done.error());
  if (tail != disk_tail_tokens(state)) {
    return refuse({ErrorCode::bad_request, name + ": holds other tokens than the index says", {}});
  }
  now_.read_bytes += file->header().record_bytes;
  return ok_status();
}

bool DiskStore::Impl::count_refusal(const Error& error) {
  if (error.code == ErrorCode::unavailable) return false;
  if (error.code == ErrorCode::not_found) {
    ++now_.refused_missing;
  } else if (error.code == ErrorCode::unsupported) {
    ++now_.refused_foreign;
  } else {
    ++now_.refused_corrupt;
  }
  log(LogLevel::warning, "a file of the disk cache is refused and deleted: " + error.message);
  return true;
}

Status DiskStore::Impl::read(DiskId id, const DiskSink& sink) {
  const DiskStateInfo* state = map_.state(id);
  if (state == nullptr) return Error{ErrorCode::not_found, "no such state on disk", {}};
  const auto blocks = (static_cast<std::size_t>(state->position) + kBlock - 1) / kBlock;
  const auto whole = static_cast<std::size_t>(state->position) / kBlock;
  check(sink.first_block >= 0 && static_cast<std::size_t>(sink.first_block) <= whole &&
            sink.blocks.size() + static_cast<std::size_t>(sink.first_block) == blocks &&
            sink.state.size() == options_.layout.state_bytes,
        "a sink has the sizes of the state that is read");
  const auto begin = std::chrono::steady_clock::now();
  Status done = read_state(*state, sink);
  if (done) {
    for (const ChainEnd& part : map_.path(state->chain)) {
      done = read_segment(part, sink);
      if (!done) break;  // the state may be gone: nothing of it is looked at any more
    }
  }
  if (!done) return done;
  ++now_.reads;
  now_.read_seconds += seconds_since(begin);
  touch(id);
  if (touched_.size() >= kMaxTouched) flush();
  return done;
}

Result<std::vector<std::byte>> DiskStore::Impl::load_blob(const std::string& name) {
  check(valid_blob_name(name), "a blob's name is plain");
  const std::string file_name = blob_file_name(name);
  const auto refuse = [&](const Error& error) {
    // One that was never saved is no fault.
    if (sizes_.count(file_name) != 0 && count_refusal(error)) remove_file(file_name);
    return error;
  };
  Result<DiskReader> file = DiskReader::open(directory_->fd(), file_name, fingerprint_);
  if (!file) return refuse(file.error());
  const DiskHeader& header = file->header();
  if (header.kind != DiskFileKind::blob || header.name != name || file->records_present() != 1) {
    return refuse({ErrorCode::bad_request, file_name + ": belongs to something else", {}});
  }
  std::vector<std::byte> bytes(header.record_bytes);
  const DiskRecordSink record{std::span(bytes), {}, {}};
  std::uint32_t good = 0;
  if (Status done = file->read(0, {&record, 1}, stage_, &good); !done) return refuse(done.error());
  return bytes;
}

}  // namespace cairn::engine
