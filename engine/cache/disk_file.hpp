// SPDX-License-Identifier: Apache-2.0
// One file of the disk tier: a header and equal-sized records, each with a checksum that binds it
// to its header and its place. Written once under a temporary name, then renamed.
//
// Layout (little endian):
//   "cairndsk", u32 version, u32 kind, fingerprint[32], u64 id, u64 parent, u32 parent_blocks,
//   i32 position, u64 record_bytes, u32 records, u32 name_bytes, name, XXH3-128 of all before;
//   then `records` times: record_bytes bytes, XXH3-128 of (header checksum, record index, bytes).
// A KV segment may be cut after any record: its file may hold fewer than the header says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/cache/fingerprint.hpp"

namespace cairn::engine {

// Errors of this file carry one of: not_found (there is no such file), bad_request (the bytes are
// not those that were written), unsupported (another format version or fingerprint), unavailable
// (the system refused; the message ends with its reason).

enum class DiskFileKind : std::uint32_t { segment = 1, state = 2, blob = 3 };

struct DiskHeader {
  DiskFileKind kind = DiskFileKind::segment;
  FingerprintHash fingerprint{};
  std::uint64_t id = 0;
  std::uint64_t parent = 0;         // the segment it continues; 0: none
  std::uint32_t parent_blocks = 0;  // how many of the parent's blocks precede it
  std::int32_t position = 0;        // tokens before a segment's first block; a state's position
  std::uint64_t record_bytes = 0;
  std::uint32_t records = 0;
  std::string name;  // scope of a segment or state, name of a blob

  bool operator==(const DiskHeader&) const = default;
};

using DiskChecksum = std::array<std::byte, 16>;
inline constexpr std::size_t kMaxDiskName = 1024;

/// Bytes of a file with so many records.
std::uint64_t disk_file_bytes(const DiskHeader& header, std::uint64_t records);

/// A record in up to three pieces that lie apart in memory.
using DiskRecord = std::array<std::span<const std::byte>, 3>;
using DiskRecordSink = std::array<std::span<std::byte>, 3>;

/// The header's bytes with their checksum.
std::vector<std::byte> encode_header(const DiskHeader& header);
/// Takes any bytes; reads no further than they reach.
Result<DiskHeader> decode_header(std::span<const std::byte> bytes);

class DiskStage;  // disk_stage.hpp: for records that lie on a device

/// Writes `name` in `directory` (an open descriptor), mode 0600, and syncs it: all records or none.
/// The name is expected to be temporary; what a failure leaves under it is removed.
Status write_disk_file(int directory, const std::string& name, const DiskHeader& header,
                       std::span<const DiskRecord> records, DiskStage& stage);

/// Renames each {temporary, final} and syncs the directory. A failure undoes nothing.
struct DiskRename {
  std::string from, to;
};
Status rename_disk_files(int directory, std::span<const DiskRename> names);

/// An open file, header checked. Movable, closes itself; one thread.
class DiskReader {
 public:
  /// Refuses a wrong header, another fingerprint, and a size that is not a whole number of records
  /// (or not all of them, but for a segment).
  static Result<DiskReader> open(int directory, const std::string& name,
                                 const FingerprintHash& fingerprint);
  DiskReader(DiskReader&& other) noexcept;
  DiskReader& operator=(DiskReader&&) = delete;
  ~DiskReader();

  const DiskHeader& header() const { return header_; }
  std::uint32_t records_present() const { return present_; }

  /// Reads sinks.size() records from number `first` on into memory of the caller's, whose content
  /// is undefined after an error. `*good` is the number of records that were right before the wrong
  /// one.
  Status read(std::uint32_t first, std::span<const DiskRecordSink> sinks, DiskStage& stage,
              std::uint32_t* good);

 private:
  DiskReader() = default;
  Status read_batch(std::uint32_t first, std::span<const DiskRecordSink> sinks,
                    std::uint32_t* good);

  int fd_ = -1;
  DiskHeader header_;
  std::uint32_t present_ = 0;
  DiskChecksum header_checksum_{};
  std::uint64_t header_bytes_ = 0;
  std::string name_;
};

}  // namespace cairn::engine
