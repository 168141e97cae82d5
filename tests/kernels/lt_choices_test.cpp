// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/lt_choices.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "base/log.hpp"
#include "tests/support/catch.hpp"

namespace cairn::kernels::cuda {
namespace {

const LtIdentity kHere{"NVIDIA H200", 130100};
constexpr LtShape kSquare{8, 8, false};
constexpr LtShape kWide{24, 8, true};
constexpr LtAlgorithm kAdvice{{1, 0xffffffffffffffff, 3, 0, 5, 0, 0, 8}};

/// A library that multiplies by ones, and adds `fault` to some rows of some calls.
class FakeLibrary final : public LtTrials {
 public:
  struct Call {
    std::int64_t rows, place;
  };
  std::function<bool(const Call&)> is_faulty = [](const Call&) { return false; };
  std::int64_t most_rows = 1 << 20;
  std::optional<LtAlgorithm> advice = kAdvice;
  int asked = 0;
  std::vector<LtAlgorithm> used;
  std::vector<std::int64_t> sizes;
  std::set<std::int64_t> places_seen;

  std::optional<LtAlgorithm> choose(const LtShape&) override {
    ++asked;
    return advice;
  }

  std::optional<std::vector<std::byte>> multiply(const LtShape& shape, const LtAlgorithm& algorithm,
                                                 std::span<const Bf16> x,
                                                 std::span<const std::int64_t> places) override {
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / shape.k;
    used.push_back(algorithm);
    sizes.push_back(rows);
    if (rows > most_rows) return std::nullopt;
    std::vector<std::byte> y(places.size() * shape.row_bytes());
    for (std::size_t i = 0; i < places.size(); ++i) {
      float sum = 0;
      for (const Bf16 value : x.subspan(static_cast<std::size_t>(places[i] * shape.k),
                                        static_cast<std::size_t>(shape.k))) {
        sum += to_float(value);
      }
      if (is_faulty({rows, places[i]})) sum += 0.5F;
      std::memcpy(y.data() + i * shape.row_bytes(), &sum, sizeof sum);
      if (rows == 64) places_seen.insert(places[i]);
    }
    return y;
  }
};

/// A path of its own that is gone afterwards, and what was logged meanwhile.
class Record {
 public:
  explicit Record(const std::string& name)
      : path(std::filesystem::temp_directory_path() /
             ("cairn_lt_" + std::to_string(getpid()) + "_" + name)) {
    std::filesystem::remove(path);
    set_log_sink([this](LogLevel, std::string_view line) { logged.emplace_back(line); });
  }
  ~Record() {
    set_log_sink({});
    std::filesystem::remove(path);
  }
  std::string read() const {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }

  std::filesystem::path path;
  std::vector<std::string> logged;
};

}  // namespace

TEST_CASE("an algorithm is tested in each bucket up to the rows that were asked for, once") {
  FakeLibrary library;
  LtChoices choices(kHere, "");
  REQUIRE(choices.prepare(kSquare, 300, library) == kAdvice);
  REQUIRE(std::set<std::int64_t>(library.sizes.begin(), library.sizes.end()) ==
          std::set<std::int64_t>{16, 64, 256, 1024});
  REQUIRE(library.places_seen.size() > 16);  // not the same rows each time
  const std::size_t before = library.sizes.size();
  REQUIRE(choices.prepare(kSquare, 1024, library) == kAdvice);
  REQUIRE(library.sizes.size() == before);
  choices.prepare(kSquare, 1025, library);
  REQUIRE(library.sizes.back() == 2048);
  REQUIRE(library.asked == 1);
  REQUIRE(choices.rejected() == 0);
}

TEST_CASE("one row whose bits change in a bucket leaves the weight to our kernel for good") {
  for (const std::int64_t bucket : {16, 256}) {
    Record record("fails");
    FakeLibrary library;
    library.is_faulty = [bucket, calls = 0](const FakeLibrary::Call& call) mutable {
      // The first 16 are the known rows themselves.
      return call.rows == bucket && calls++ > 16 && call.place >= bucket / 2;
    };
    LtChoices choices(kHere, record.path);
    REQUIRE_FALSE(choices.prepare(kSquare, 1024, library));
    REQUIRE(library.sizes.back() == bucket);  // larger buckets are not tried
    REQUIRE(choices.rejected() == 1);
    library.is_faulty = [](const FakeLibrary::Call&) { return false; };
    REQUIRE_FALSE(choices.prepare(kSquare, 16, library));
    REQUIRE(record.logged.size() == 1);
    REQUIRE(record.logged[0] ==
            "cublaslt: weights of 8 x 8 to fp32 are left to cairn's own kernel: a row's bits "
            "change among " +
                std::to_string(bucket) + " rows");
    LtChoices next(kHere, record.path);
    REQUIRE(next.rejected() == 1);
    REQUIRE_FALSE(next.prepare(kSquare, 1, library));
    REQUIRE(library.asked == 1);
  }
}

TEST_CASE("a bucket that fails later takes the weight away from those that passed") {
  FakeLibrary library;
  LtChoices choices(kHere, "");
  REQUIRE(choices.prepare(kSquare, 64, library));
  library.most_rows = 64;  // the algorithm does not take 256
  REQUIRE_FALSE(choices.prepare(kSquare, 65, library));
  REQUIRE_FALSE(choices.prepare(kSquare, 16, library));
  REQUIRE(choices.prepare(kWide, 64, library));  // other weights keep theirs
  REQUIRE(choices.rejected() == 1);
}

TEST_CASE("the digest changes with all that products' bits depend on, and with nothing else") {
  Record record("digest");
  const auto digest = [](const LtIdentity& identity, FakeLibrary library,
                         const std::string& file = "") {
    LtChoices choices(identity, file);
    choices.prepare(kSquare, 64, library);
    return choices.digest();
  };
  const FakeLibrary usual;
  const std::string want = digest(kHere, usual);
  REQUIRE(want.size() == 16);
  REQUIRE(digest(kHere, usual, record.path) == want);
  LtChoices both(kHere, record.path);
  FakeLibrary library;
  both.prepare(kWide, 64, library);
  REQUIRE(both.digest() != want);
  both.prepare(kSquare, 64, library);
  REQUIRE(both.digest() != want);
  REQUIRE(digest(kHere, usual, record.path) == want);  // with another model's shape in the file

  LtIdentity newer = kHere;
  ++newer.library;
  REQUIRE(digest(newer, usual) != want);
  REQUIRE(digest({"another device", kHere.library}, usual) != want);
  FakeLibrary other = usual;
  other.advice->words[7] ^= 1;
  REQUIRE(digest(kHere, other) != want);
  other.advice.reset();
  REQUIRE(digest(kHere, other) != want);
}

TEST_CASE("without an algorithm of the library a weight is ours") {
  Record record("none");
  FakeLibrary library;
  library.advice.reset();
  LtChoices choices(kHere, record.path);
  REQUIRE_FALSE(choices.prepare(kSquare, 1, library));
  REQUIRE(library.sizes.empty());
  REQUIRE(record.logged.size() == 1);
  REQUIRE_FALSE(LtChoices(kHere, record.path).prepare(kSquare, 1, library));
  REQUIRE(library.asked == 1);
}

TEST_CASE("the next start takes the recorded algorithm, and tests it again") {
  Record record("kept");
  FakeLibrary library;
  {
    LtChoices choices(kHere, record.path);
    choices.prepare(kSquare, 1, library);
    library.advice->words[7] = 77;
    choices.prepare(kWide, 1, library);
  }
  FakeLibrary other;
  other.advice->words[0] = 99;
  LtChoices choices(kHere, record.path);
  REQUIRE(choices.prepare(kSquare, 16, other) == kAdvice);
  REQUIRE(choices.prepare(kWide, 16, other) == library.advice);
  REQUIRE(other.asked == 0);
  REQUIRE(other.used.front() == kAdvice);
  REQUIRE(choices.prepare({8, 8, true}, 16, other) == other.advice);  // another shape
  REQUIRE(other.asked == 1);
  REQUIRE(record.logged.empty());
}

TEST_CASE("a record of another device or library version is replaced without a word") {
  for (const LtIdentity& there :
       {LtIdentity{"NVIDIA A100", 130100}, LtIdentity{"NVIDIA H200", 1}}) {
    Record record("other");
    FakeLibrary library;
    LtChoices(there, record.path).prepare(kSquare, 1, library);
    library.advice->words[0] = 5;
    REQUIRE(LtChoices(kHere, record.path).prepare(kSquare, 1, library) == library.advice);
    REQUIRE(library.asked == 2);
    REQUIRE(record.logged.empty());
    REQUIRE(record.read().find("device NVIDIA H200\nlibrary 130100\n") != std::string::npos);
  }
}

TEST_CASE("a damaged record is reported and chosen anew") {
  Record record("damaged");
  FakeLibrary library;
  LtChoices(kHere, record.path).prepare(kSquare, 1, library);
  const std::string good = record.read();
  std::string flipped = good;
  flipped[good.find("algorithm ") + 12] ^= 1;
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), flipped}) {
    record.write(bad);
    record.logged.clear();
    LtChoices choices(kHere, record.path);
    REQUIRE(record.logged ==
            std::vector<std::string>{"cublaslt: " + record.path.string() +
                                     " is damaged; its algorithms are chosen anew"});
    REQUIRE(choices.prepare(kSquare, 1, library) == kAdvice);
    REQUIRE(record.read() == good);
  }
}

TEST_CASE("a record that cannot be written is a warning, and the choice holds") {
  Record record("unwritable");
  FakeLibrary library;
  LtChoices choices(kHere, record.path / "no" / "folder");
  REQUIRE(choices.prepare(kSquare, 1, library) == kAdvice);
  REQUIRE(record.logged.size() == 1);
  REQUIRE(record.logged[0].find("cannot be written") != std::string::npos);
}

}  // namespace cairn::kernels::cuda
