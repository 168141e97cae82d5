// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/disk_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "base/failpoints.hpp"
#include "engine/cache/disk_stage.hpp"

namespace cairn::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's order is little endian");

constexpr char kMagic[8] = {'c', 'a', 'i', 'r', 'n', 'd', 's', 'k'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChecksumBytes = sizeof(DiskChecksum);
constexpr std::size_t kFixedBytes = 96;     // header without its name and checksum
constexpr std::size_t kBatchRecords = 256;  // x 4 pieces: within IOV_MAX

Error system_error(const std::string& what, int number) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(number), {}};
}

Error corrupt(const std::string& name, const std::string& what) {
  return {ErrorCode::bad_request, name + ": " + what, {}};
}

DiskChecksum canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  DiskChecksum out;
  std::memcpy(out.data(), bytes.digest, out.size());
  return out;
}

template <class Pieces>
DiskChecksum record_checksum(const DiskChecksum& header, std::uint32_t index,
                             const Pieces& pieces) {
  thread_local const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(
      XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  XXH3_128bits_update(state.get(), header.data(), header.size());
  XXH3_128bits_update(state.get(), &index, sizeof index);
  for (const auto& piece : pieces) {
    if (!piece.empty()) XXH3_128bits_update(state.get(), piece.data(), piece.size());
  }
  return canonical(XXH3_128bits_digest(state.get()));
}

template <class Pieces>
std::uint64_t bytes_in(const Pieces& pieces) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

template <class T>
T take(std::span<const std::byte>& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

/// Moves all of `pieces` with `move` (pwritev or preadv) from `offset` on. 0, or the error's
/// number; ENODATA where the file ends early.
template <class Move>
int move_all(std::vector<iovec> pieces, std::uint64_t offset, const Move& move) {
  std::size_t next = 0;
  while (next < pieces.size()) {
    if (pieces[next].iov_len == 0) {
      ++next;
      continue;
    }
    const ssize_t n = move(pieces.data() + next, static_cast<int>(pieces.size() - next),
                           static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENODATA;
    offset += static_cast<std::uint64_t>(n);
    for (auto left = static_cast<std::size_t>(n); left > 0;) {
      const std::size_t step = std::min(left, pieces[next].iov_len);
      pieces[next].iov_base = static_cast<char*>(pieces[next].iov_base) + step;
      pieces[next].iov_len -= step;
      left -= step;
      if (pieces[next].iov_len == 0) ++next;
    }
  }
  return 0;
}

iovec piece_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// A file being written; the failpoint makes the disk full after so many bytes.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) {
    if (const Fault fault = failpoint("disk.write"); fault.fail) room_ = fault.after;
  }

  int write(std::vector<iovec> pieces) {
    std::int64_t bytes = 0;
    for (iovec& piece : pieces) {
      const auto room = room_ < 0 ? piece.iov_len : static_cast<std::size_t>(room_ - bytes);
      piece.iov_len = std::min(piece.iov_len, room);
      bytes += static_cast<std::int64_t>(piece.iov_len);
    }
    const int error = move_all(std::move(pieces), offset_, [this](const iovec* v, int n, off_t at) {
      return ::pwritev(fd_, v, n, at);
    });
    offset_ += static_cast<std::uint64_t>(bytes);
    if (room_ < 0 || error != 0) return error;
    room_ -= bytes;
    return room_ == 0 ? ENOSPC : 0;
  }

 private:
  int fd_;
  std::uint64_t offset_ = 0;
  std::int64_t room_ = -1;
};

Status write_records(Output& out, const std::string& name, const DiskHeader& about,
                     std::span<const DiskRecord> records, DiskStage& stage) {
  const auto failed = [&](int error) { return system_error("cannot write " + name, error); };
  const std::vector<std::byte> head = encode_header(about);
  if (const int error = out.write({piece_of(head)})) return failed(error);
  DiskChecksum header;
  std::copy(head.end() - kChecksumBytes, head.end(), header.begin());
  const std::size_t most = stage.batch(about.record_bytes, kBatchRecords);
  for (std::size_t begin = 0; begin < records.size(); begin += most) {
    const auto fetched =
        stage.fetch(records.subspan(begin, std::min(most, records.size() - begin)));
    if (!fetched) return fetched.error();
    const std::span<const DiskRecord> batch = *fetched;
    std::vector<DiskChecksum> sums(batch.size());
    std::vector<iovec> pieces;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      sums[i] = record_checksum(header, static_cast<std::uint32_t>(begin + i), batch[i]);
      for (const auto& piece : batch[i]) pieces.push_back(piece_of(piece));
      pieces.push_back(piece_of(sums[i]));
    }
    if (const int error = out.write(std::move(pieces))) return failed(error);
  }
  return ok_status();
}

}  // namespace

std::vector<std::byte> encode_header(const DiskHeader& header) {
  check(header.name.size() <= kMaxDiskName, "a scope or blob name is too long");
  std::vector<std::byte> out;
  out.reserve(kFixedBytes + header.name.size() + kChecksumBytes);
  append(out, kMagic);
  append(out, kVersion);
  append(out, header.kind);
  append(out, header.fingerprint);
  append(out, header.id);
  append(out, header.parent);
  append(out, header.parent_blocks);
  append(out, header.position);
  append(out, header.record_bytes);
  append(out, header.records);
  append(out, static_cast<std::uint32_t>(header.name.size()));
  append(out, std::uint64_t{0});  // room for a later version
  check(out.size() == kFixedBytes, "the header's size is fixed");
  for (const char c : header.name) append(out, c);
  append(out, canonical(XXH3_128bits(out.data(), out.size())));
  return out;
}

Result<DiskHeader> decode_header(std::span<const std::byte> bytes) {
  const std::span<const std::byte> all = bytes;
  const auto wrong = [](const char* what) { return Error{ErrorCode::bad_request, what, {}}; };
  if (bytes.size() < kFixedBytes + kChecksumBytes) return wrong("the header is cut off");
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return wrong("not a cache file");
  bytes = bytes.subspan(sizeof kMagic);
  if (take<std::uint32_t>(bytes) != kVersion) {
    return Error{ErrorCode::unsupported, "another version of the file format", {}};
  }
  DiskHeader h;
  const auto kind = take<std::uint32_t>(bytes);
  h.kind = static_cast<DiskFileKind>(kind);
  h.fingerprint = take<FingerprintHash>(bytes);
  h.id = take<std::uint64_t>(bytes);
  h.parent = take<std::uint64_t>(bytes);
  h.parent_blocks = take<std::uint32_t>(bytes);
  h.position = take<std::int32_t>(bytes);
  h.record_bytes = take<std::uint64_t>(bytes);
  h.records = take<std::uint32_t>(bytes);
  const auto name_bytes = take<std::uint32_t>(bytes);
  take<std::uint64_t>(bytes);
  if (name_bytes > kMaxDiskName || bytes.size() < name_bytes + kChecksumBytes) {
    return wrong("the header is cut off or flipped");
  }
  const std::size_t covered = kFixedBytes + name_bytes;
  const DiskChecksum sum = canonical(XXH3_128bits(all.data(), covered));
  if (std::memcmp(sum.data(), all.data() + covered, sum.size()) != 0) {
    return wrong("the header's checksum does not match");
  }
  // A right checksum over such values means that a defect of ours wrote them: refused all the same.
  if (kind < 1 || kind > 3 || h.record_bytes > (std::uint64_t{1} << 40U)) {
    return wrong("the header names impossible sizes");
  }
  h.name.assign(reinterpret_cast<const char*>(bytes.data()), name_bytes);
  return h;
}

std::uint64_t disk_file_bytes(const DiskHeader& header, std::uint64_t records) {
  return kFixedBytes + header.name.size() + kChecksumBytes +
         records * (header.record_bytes + kChecksumBytes);
}

Status write_disk_file(int directory, const std::string& name, const DiskHeader& header,
                       std::span<const DiskRecord> records, DiskStage& stage) {
  check(records.size() == header.records, "the header counts the records");
  for (const DiskRecord& r : records) {
    check(bytes_in(r) == header.record_bytes, "a record's size differs from the header's");
  }
  const int fd =
      ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error("cannot create " + name, errno);
  Output out(fd);
  Status done = write_records(out, name, header, records, stage);
  if (done && hit_failpoint("disk.sync")) {
    done = system_error("cannot write " + name, EIO);
  } else if (done && ::fsync(fd) != 0) {
    done = system_error("cannot write " + name, errno);
  }
  if (::close(fd) != 0 && done) done = system_error("cannot write " + name, errno);
  if (!done) ::unlinkat(directory, name.c_str(), 0);
  return done;
}

Status rename_disk_files(int directory, std::span<const DiskRename> names) {
  for (const DiskRename& n : names) {
    if (hit_failpoint("disk.rename")) return system_error("cannot rename " + n.from, EIO);
    if (::renameat(directory, n.from.c_str(), directory, n.to.c_str()) != 0) {
      return system_error("cannot rename " + n.from, errno);
    }
  }
  if (::fsync(directory) != 0) return system_error("cannot sync the directory", errno);
  return ok_status();
}

DiskReader::DiskReader(DiskReader&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      header_(std::move(other.header_)),
      present_(other.present_),
      header_checksum_(other.header_checksum_),
      header_bytes_(other.header_bytes_),
      name_(std::move(other.name_)) {}

DiskReader::~DiskReader() {
  if (fd_ >= 0) ::close(fd_);
}

Result<DiskReader> DiskReader::open(int directory, const std::string& name,
                                    const FingerprintHash& fingerprint) {
  DiskReader reader;
  reader.name_ = name;
  // O_NONBLOCK: a pipe under that name must not hold us.
  reader.fd_ = ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (reader.fd_ < 0 && errno == ENOENT) return Error{ErrorCode::not_found, name + " is gone", {}};
  if (reader.fd_ < 0 && errno == ELOOP) return corrupt(name, "is a symbolic link");
  if (reader.fd_ < 0) return system_error("cannot open " + name, errno);
  struct stat info {};
  if (::fstat(reader.fd_, &info) != 0) return system_error("cannot stat " + name, errno);
  if (!S_ISREG(info.st_mode)) return corrupt(name, "is not a regular file");

  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::vector<std::byte> head(
      std::min<std::uint64_t>(size, kFixedBytes + kMaxDiskName + kChecksumBytes));
  const int error = move_all({{head.data(), head.size()}}, 0, [&](const iovec* v, int n, off_t at) {
    return ::preadv(reader.fd_, v, n, at);
  });
  if (error != 0) return system_error("cannot read " + name, error);
  Result<DiskHeader> header = decode_header(head);
  if (!header) return Error{header.error().code, name + ": " + header.error().message, {}};
  if (header->fingerprint != fingerprint) {
    return Error{ErrorCode::unsupported, name + ": written under another fingerprint", {}};
  }
  reader.header_ = header.take();
  reader.header_bytes_ = disk_file_bytes(reader.header_, 0);
  std::copy_n(head.begin() + static_cast<std::ptrdiff_t>(reader.header_bytes_ - kChecksumBytes),
              kChecksumBytes, reader.header_checksum_.begin());
  const std::uint64_t stride = reader.header_.record_bytes + kChecksumBytes;
  const std::uint64_t present = (size - reader.header_bytes_) / stride;
  const bool whole = reader.header_.kind == DiskFileKind::segment
                         ? present <= reader.header_.records
                         : present == reader.header_.records;
  if (!whole || reader.header_bytes_ + present * stride != size) {
    return corrupt(name, "its size is not what its header says");
  }
  reader.present_ = static_cast<std::uint32_t>(present);
  return reader;
}

Status DiskReader::read(std::uint32_t first, std::span<const DiskRecordSink> sinks,
                        DiskStage& stage, std::uint32_t* good) {
  *good = 0;
  const std::size_t most = stage.batch(header_.record_bytes, kBatchRecords);
  for (std::size_t begin = 0; begin < sinks.size(); begin += most) {
    const auto batch = stage.land(sinks.subspan(begin, std::min(most, sinks.size() - begin)));
    Status status = read_batch(first + static_cast<std::uint32_t>(begin), batch, good);
    if (status) status = stage.deliver();
    if (!status) return status;
  }
  return ok_status();
}

Status DiskReader::read_batch(std::uint32_t first, std::span<const DiskRecordSink> sinks,
                              std::uint32_t* good) {
  if (first + sinks.size() > present_) return corrupt(name_, "holds fewer records than asked for");
  std::vector<DiskChecksum> sums(sinks.size());
  std::vector<iovec> pieces;
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    check(bytes_in(sinks[i]) == header_.record_bytes, "a sink's size differs from the record's");
    for (const auto& piece : sinks[i]) pieces.push_back({piece.data(), piece.size()});
    pieces.push_back({sums[i].data(), sums[i].size()});
  }
  const std::uint64_t offset = header_bytes_ + first * (header_.record_bytes + kChecksumBytes);
  const int error = move_all(std::move(pieces), offset, [this](const iovec* v, int n, off_t at) {
    return ::preadv(fd_, v, n, at);
  });
  if (error == ENODATA) return corrupt(name_, "ends early");
  if (error == EIO) return corrupt(name_, "the disk cannot read it any more");
  if (error != 0) return system_error("cannot read " + name_, error);
  if (const Fault fault = failpoint("disk.read"); fault.fail) {
    for (const auto& piece : sinks[0]) {
      if (!piece.empty())
        piece[static_cast<std::size_t>(fault.after) % piece.size()] ^= std::byte{1};
    }
  }
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    const auto index = first + static_cast<std::uint32_t>(i);
    if (record_checksum(header_checksum_, index, sinks[i]) != sums[i]) {
      return corrupt(name_, "record " + std::to_string(index) + " has a wrong checksum");
    }
    ++*good;
  }
  return ok_status();
}

}  // namespace cairn::engine
