// SPDX-License-Identifier: Apache-2.0
// Files that are broken in every way: each refused in one sentence, none of them a crash.
#include <random>

#include "base/check.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/model/net/tensor_file.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::model;
using cairn::testing::as_bytes;
using cairn::testing::TempDir;
using cairn::testing::TensorFile;

namespace {

const std::string kTinyFile = std::string(CAIRN_FIXTURES) + "/tiny/model.safetensors";

std::string refusal(const std::string& header, const std::string& data = std::string(16, 'x')) {
  const std::string bytes = TensorFile::with_header(header, data);
  try {
    parse_safetensors(as_bytes(bytes), "m.safetensors");
  } catch (const LoadError& e) {
    return e.what();
  }
  return "accepted";
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

}  // namespace

TEST_CASE("the tensors of a file are listed with shape, type and data") {
  const std::string bytes = testing::read_file(kTinyFile);
  const auto tensors = parse_safetensors(as_bytes(bytes), kTinyFile);
  REQUIRE(tensors.size() == 70);
  CHECK(tensors[0].name == "model.language_model.embed_tokens.weight");
  CHECK(tensors[0].shape == std::vector<std::int64_t>{128, 64});
  CHECK(tensors[0].dtype == "BF16");
  CHECK(tensors[0].elements() == 128 * 64);
  CHECK(parse_safetensors(as_bytes(TensorFile::parse(bytes).serialize()), "again").size() == 70);
}

TEST_CASE("a scalar and an empty tensor are read") {
  const std::string header =
      "{" + entry("e", "F32", "[0, 4]", "[0, 0]") + "," + entry("s", "F32", "[]", "[0, 4]") + "}";
  const std::string bytes = TensorFile::with_header(header, "abcd");
  const auto tensors = parse_safetensors(as_bytes(bytes), "f");
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].elements() == 0);
  CHECK(tensors[1].elements() == 1);
}

TEST_CASE("a malformed header is refused in one sentence") {
  struct Bad {
    std::string header, says;
  };
  const std::vector<Bad> all{
      {"", "the header is not valid JSON"},
      {"[]", "the header is not a JSON object"},
      {"{\"a\":3}", "tensor a: expected a dtype"},
      {"{\"a\":{\"dtype\":\"F32\"}}", "tensor a: expected a shape"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "tensor a: expected data_offsets"},
      {"{" + entry("a", "F32", "[4]", "[0]") + "}", "tensor a: expected data_offsets"},
      {"{" + entry("a", "Q4", "[4]", "[0, 16]") + "}", "tensor a: dtype \"Q4\" is unknown"},
      {"{" + entry("a", "F32", "[-4]", "[0, 16]") + "}", "tensor a: shape holds something"},
      {"{" + entry("a", "F32", "[4.0]", "[0, 16]") + "}", "tensor a: shape holds something"},
      {"{" + entry("a", "F32", "[\"4\"]", "[0, 16]") + "}", "tensor a: shape holds something"},
      {"{" + entry("a", "F32", "[4]", "[0, 99999999999999999999]") + "}",
       "tensor a: data_offsets holds something"},
      {"{" + entry("a", "F32", "[4]", "[0, 20]") + "}", "is it truncated?"},
      {"{" + entry("a", "F32", "[4]", "[16, 0]") + "}", "leave the file"},
      {"{" + entry("a", "F32", "[5]", "[0, 16]") + "}",
       "tensor a: shape [5] of F32 needs 20 bytes, data_offsets give 16"},
      {"{" + entry("a", "F32", "[4294967296, 4294967296]", "[0, 16]") + "}",
       "asks for more bytes than can exist"},
      {"{" + entry("a", "F32", "[0, 4294967296, 4294967296]", "[0, 16]") + "}", "needs 0 bytes"},
      {"{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,16]", "[0, 16]") + "}", "more than 8 dimensions"},
      {"{" + entry("a", "U8", "[10]", "[0, 10]") + "," + entry("b", "U8", "[10]", "[6, 16]") + "}",
       "tensor b: begins at data byte 6, expected 10, where a ends"},
      {"{" + entry("a", "U8", "[8]", "[8, 16]") + "}",
       "tensor a: begins at data byte 8, expected 0, where the header ends"},
      {"{" + entry("a", "U8", "[8]", "[0, 8]") + "}", "has 8 bytes after its last tensor"},
      {"{\"a\":[[[[[[[[[[1]]]]]]]]]]}", "less deep nesting"},
  };
  for (const Bad& bad : all) {
    const std::string said = refusal(bad.header);
    INFO(said);
    CHECK(said.find("m.safetensors: ") == 0);
    CHECK(said.find(bad.says) != std::string::npos);
  }
}

TEST_CASE("a file shorter than it says is refused") {
  const std::string whole = testing::read_file(kTinyFile);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{100}, whole.size() - 1}) {
    INFO("first " << size << " bytes");
    CHECK_THROWS_AS(parse_safetensors(as_bytes(whole.substr(0, size)), "f"), LoadError);
  }
  CHECK_THROWS_AS(parse_safetensors(as_bytes(whole + "x"), "f"), LoadError);
  const std::string lying = std::string(8, '\xff') + whole.substr(8);
  CHECK_THROWS_AS(parse_safetensors(as_bytes(lying), "f"), LoadError);
}

TEST_CASE("no corruption of a file does more than be refused") {
  const std::string whole = testing::read_file(kTinyFile);
  // A file of its own for the mutations: header and little data, so that most of them matter.
  TensorFile small = TensorFile::parse(whole);
  small.entries.resize(6);
  for (TensorFile::Entry& e : small.entries) {
    e.shape = {3, static_cast<std::int64_t>(e.name.size() % 5)};
    e.dtype = "BF16";
    e.data.assign(static_cast<std::size_t>(6 * e.shape[1]), 'w');
  }
  const std::string source = small.serialize();
  constexpr std::string_view kTokens[] = {"0",        "-1",      "18446744073709551615",
                                          "{",        "}",       "[",
                                          "]",        "\"",      ",",
                                          ":",        "null",    "1e308",
                                          "\"BF16\"", "\\u",     "true",
                                          "\xff",     "\"F64\"", "9223372036854775807"};
  std::mt19937_64 random(2024);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = source;
    for (std::uint64_t edits = 1 + random() % 4; edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = random() % std::min<std::size_t>(bytes.size(), 700);
      switch (random() % 6) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.resize(random() % (bytes.size() + 1));
          break;
        case 3:
          bytes.erase(at, 1 + random() % 9);
          break;
        case 4:
          bytes.insert(at, kTokens[random() % std::size(kTokens)]);
          break;
        default: {  // a number replaced inside the header, its length kept right
          const std::string_view token = kTokens[random() % std::size(kTokens)];
          bytes.replace(at, std::min(token.size(), bytes.size() - at), token);
        }
      }
    }
    // Half of the time the length field follows, so that the JSON itself is reached.
    if (bytes.size() >= 8 && random() % 2 == 0) {
      const std::size_t end = bytes.rfind('}');
      const std::uint64_t length = end == std::string::npos || end < 8 ? 0 : end - 7;
      std::memcpy(bytes.data(), &length, sizeof length);
    }
    try {
      std::uint64_t sum = 0;
      for (const TensorView& t : parse_safetensors(as_bytes(bytes), "fuzz")) {
        for (const std::byte b : t.data) sum += std::to_integer<std::uint64_t>(b);
      }
      accepted += sum < ~std::uint64_t{0} ? 1 : 0;
    } catch (const LoadError& e) {
      REQUIRE(std::string(e.what()).find("fuzz: ") == 0);
    }
  }
  INFO(accepted << " mutations left a readable file");
  CHECK(accepted > 0);
  CHECK(accepted < 20000);
}

TEST_CASE("a sharded model is read through its index") {
  const TempDir dir;
  TensorFile all = TensorFile::parse(testing::read_file(kTinyFile));
  TensorFile first, second;
  std::string map;
  for (std::size_t i = 0; i < all.entries.size(); ++i) {
    TensorFile& to = i % 2 == 0 ? first : second;
    to.entries.push_back(all.entries[i]);
    map += (map.empty() ? "\"" : ",\"") + all.entries[i].name + "\":\"" +
           (i % 2 == 0 ? "a.safetensors\"" : "b.safetensors\"");
  }
  dir.write("a.safetensors", first.serialize());
  dir.write("b.safetensors", second.serialize());
  const auto index = [&](const std::string& text) {
    dir.write("model.safetensors.index.json", text);
    try {
      return std::to_string(Checkpoint::open_directory(dir.path()).names().size());
    } catch (const LoadError& e) {
      return std::string(e.what());
    }
  };
  const auto says = [](const std::string& said, const std::string& wanted) {
    INFO(said);
    CHECK(said.find(wanted) != std::string::npos);
  };
  CHECK(index("{\"metadata\":{\"total_size\":1},\"weight_map\":{" + map + "}}") == "70");
  says(index("{\"weight_map\":{" + map + ",\"x\":\"c.safetensors\"}}"),
       "tensor x is to be in c.safetensors, expected that file");
  says(index("{\"weight_map\":{" + map + ",\"x\":\"a.safetensors\"}}"),
       "tensor x is not in a.safetensors, expected it there");
  const std::string name = all.entries[0].name;
  says(index("{\"weight_map\":{" + map + ",\"" + name + "\":\"b.safetensors\"}}"),
       "tensor " + name + " is not in b.safetensors but in ");
  for (const char* bad : {"../a.safetensors", "/etc/passwd", "..", "", "a\\\\b", "a\\u0000b"}) {
    says(index("{\"weight_map\":{\"x\":\"" + std::string(bad) + "\"}}"),
         "tensor x: expected the name of a file beside the index");
  }
  says(index("{\"weight_map\":{\"x\":3}}"), "tensor x: expected the name of a file");
  says(index("{\"weight_map\":{}}"), "weight_map is missing or empty");
  says(index("[]"), "weight_map is missing or empty");
  says(index("{"), "not valid JSON");
  second.entries.push_back(first.entries[0]);
  dir.write("b.safetensors", second.serialize());
  says(index("{\"weight_map\":{" + map + "}}"), "is also in ");
}

TEST_CASE("a directory without weights, and none at all, are refused") {
  const TempDir dir;
  CHECK_THROWS_WITH(Checkpoint::open_directory(dir.path()),
                    Catch::Contains("expected model.safetensors.index.json or model.safetensors"));
  CHECK_THROWS_WITH(Checkpoint::open_directory(dir.file("none")),
                    Catch::Contains("expected a model directory"));
  CHECK_THROWS_AS(Checkpoint::from_memory({}), LoadError);
}
