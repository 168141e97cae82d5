// SPDX-License-Identifier: Apache-2.0
// The format of the disk tier's files against bytes of any kind.
#include <fcntl.h>
#include <unistd.h>

#include "engine/cache/disk_file.hpp"
#include "tests/engine/cache/disk_kit.hpp"

using namespace cairn;
using namespace cairn::testing;

namespace {

DiskHeader random_header(std::mt19937_64& random) {
  DiskHeader h;
  h.kind = static_cast<DiskFileKind>(1 + random() % 3);
  for (auto& b : h.fingerprint) b = static_cast<std::byte>(random() & 0xFF);
  h.id = random();
  h.parent = random();
  h.parent_blocks = static_cast<std::uint32_t>(random());
  h.position = static_cast<std::int32_t>(random());
  h.record_bytes = random() % (std::uint64_t{1} << 40U);
  h.records = static_cast<std::uint32_t>(random());
  h.name.resize(random() % 60);
  for (char& c : h.name) c = static_cast<char>(random());
  return h;
}

/// An open directory.
struct OpenDir {
  TempDir temp;
  int fd = ::open(temp.path().c_str(), O_RDONLY | O_DIRECTORY);
  ~OpenDir() { ::close(fd); }
};

}  // namespace

TEST_CASE("a header is read as it was written") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const DiskHeader h = random_header(random);
    const auto decoded = decode_header(encode_header(h));
    REQUIRE(decoded);
    REQUIRE(*decoded == h);
  }
}

TEST_CASE("a header with any change, cut or growth in front is refused") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const auto bytes = encode_header(random_header(random));
    auto changed = bytes;
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
      changed[random() % changed.size()] ^= static_cast<std::byte>(1 + random() % 255);
    }
    if (changed != bytes) REQUIRE_FALSE(decode_header(changed));
    REQUIRE_FALSE(decode_header(std::span(bytes).first(random() % bytes.size())));
    REQUIRE_FALSE(decode_header(std::span(bytes).subspan(1)));
  }
}

TEST_CASE("random bytes are no header, however they begin") {
  std::mt19937_64 random(3);
  const auto good = encode_header(random_header(random));
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes(random() % 400);
    for (auto& b : bytes) b = static_cast<std::byte>(random() & 0xFF);
    const std::size_t kept = std::min<std::size_t>(random() % 100, bytes.size());
    std::copy_n(good.begin(), kept, bytes.begin());
    REQUIRE_FALSE(decode_header(bytes));
  }
}

TEST_CASE("a true header over a file of another size is refused before anything is reserved") {
  const OpenDir dir;
  std::mt19937_64 random(4);
  for (int i = 0; i < 200; ++i) {
    const DiskHeader h = random_header(random);
    const auto bytes = encode_header(h);
    std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    content.append(1 + random() % 300, 'x');
    dir.temp.write("f", content);
    const auto opened = DiskReader::open(dir.fd, "f", h.fingerprint);
    if (opened) {
      // A segment of few small records by chance: then its size is whole.
      REQUIRE(h.kind == DiskFileKind::segment);
      REQUIRE(content.size() == disk_file_bytes(h, opened->records_present()));
    }
  }
}

TEST_CASE("records are read from anywhere, in pieces of any size, and only as many as there are") {
  const OpenDir dir;
  std::mt19937_64 random(5);
  DiskHeader h = random_header(random);
  h.kind = DiskFileKind::segment;
  h.record_bytes = 100;
  h.records = 700;  // more than one batch
  std::vector<std::byte> content(h.record_bytes * h.records);
  for (auto& b : content) b = static_cast<std::byte>(random() & 0xFF);
  std::vector<DiskRecord> records;
  for (std::size_t r = 0; r < h.records; ++r) {
    const auto bytes = std::span<const std::byte>(content).subspan(100 * r, 100);
    const std::size_t a = random() % 101;
    const std::size_t b = a + random() % (101 - a);
    records.push_back({bytes.first(a), bytes.subspan(a, b - a), bytes.subspan(b)});
  }
  REQUIRE(write_disk_file(dir.fd, "f", h, records, host));
  CHECK_FALSE(write_disk_file(dir.fd, "f", h, records, host));  // never over another
  for (int i = 0; i < 40; ++i) {
    auto reader = DiskReader::open(dir.fd, "f", h.fingerprint);
    REQUIRE(reader);
    const auto first = static_cast<std::uint32_t>(random() % h.records);
    const std::size_t n = random() % (h.records - first + 1);
    std::vector<std::byte> got(100 * n);
    std::vector<DiskRecordSink> sinks;
    for (std::size_t r = 0; r < n; ++r) {
      const auto bytes = std::span(got).subspan(100 * r, 100);
      const std::size_t a = random() % 101;
      sinks.push_back({bytes.first(a), {}, bytes.subspan(a)});
    }
    std::uint32_t good = 0;
    REQUIRE(reader->read(first, sinks, host, &good));
    REQUIRE(good == n);
    REQUIRE(std::equal(got.begin(), got.end(), content.begin() + 100 * first));
  }
  auto reader = DiskReader::open(dir.fd, "f", h.fingerprint);
  std::vector<std::byte> got(200);
  const DiskRecordSink two[] = {{std::span(got).first(100), {}, {}},
                                {std::span(got).subspan(100), {}, {}}};
  std::uint32_t good = 0;
  CHECK_FALSE(reader->read(699, two, host, &good));
  CHECK(reader->read(698, two, host, &good));
}

TEST_CASE("the number of right records before a wrong one is told") {
  const OpenDir dir;
  DiskHeader h;
  h.record_bytes = 50;
  h.records = 600;
  const std::vector<std::byte> bytes(50, std::byte{7});
  const std::vector<DiskRecord> records(600, DiskRecord{bytes, {}, {}});
  REQUIRE(write_disk_file(dir.fd, "f", h, records, host));
  for (const std::uint32_t wrong : {0U, 1U, 255U, 256U, 599U}) {
    std::filesystem::copy_file(dir.temp.file("f"), dir.temp.file("g"),
                               std::filesystem::copy_options::overwrite_existing);
    flip_bit(dir.temp.file("g"), disk_file_bytes(h, wrong) + 20);
    auto reader = DiskReader::open(dir.fd, "g", h.fingerprint);
    REQUIRE(reader);
    std::vector<std::vector<std::byte>> got(600, std::vector<std::byte>(50));
    std::vector<DiskRecordSink> sinks;
    for (auto& g : got) sinks.push_back({std::span(g), {}, {}});
    std::uint32_t good = 0;
    REQUIRE_FALSE(reader->read(0, sinks, host, &good));
    REQUIRE(good == wrong);
  }
}
