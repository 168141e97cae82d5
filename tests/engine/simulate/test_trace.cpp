// SPDX-License-Identifier: Apache-2.0
// What each trace format means, and what is said of files that are wrong.
#include <zlib.h>

#include <random>

#include "base/check.hpp"
#include "base/json.hpp"
#include "engine/simulate/trace.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;
using Ids = std::vector<std::int32_t>;

namespace {

std::string gzipped(const std::string& text) {
  testing::TempDir dir;
  const std::string path = dir.file("z");
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return testing::read_file(path);
}

std::unique_ptr<const Trace> read(const std::string& content, std::int32_t block_size = 512) {
  testing::TempDir dir;
  dir.write("t", content);
  return read_trace(dir.file("t"), {.block_size = block_size});
}

/// The message, the directory left out: "t:2: ...". Empty when the file is accepted.
std::string refusal(const std::string& content, std::int32_t block_size = 512) {
  testing::TempDir dir;
  dir.write("t", content);
  try {
    read_trace(dir.file("t"), {.block_size = block_size});
  } catch (const LoadError& error) {
    const std::string text = error.what();
    REQUIRE(text.starts_with(dir.file("t")));
    return text.substr(dir.path().size() + 1);
  }
  return "";
}

std::size_t common(const Ids& a, const Ids& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

}  // namespace

TEST_CASE("Token lines are read as objects of either name and as bare arrays") {
  const auto trace = read(
      "{\"tokens\": [1, 2, 3], \"timestamp\": 1500, \"output_length\": 9}\n\n"
      "[4]\r\n{\"prompt_token_ids\": [5, 2147483647]}");
  REQUIRE(trace->size() == 3);
  CHECK(*trace->tokens(0) == Ids{1, 2, 3});
  CHECK(*trace->tokens(1) == Ids{4});
  CHECK(*trace->tokens(2) == Ids{5, 2147483647});
  CHECK((*trace)[0].length == 3);
  CHECK((*trace)[0].arrival_seconds == 1.5);
  CHECK((*trace)[0].output_tokens == 9);
  CHECK((*trace)[1].overlap == TraceRequest::kNotStated);
  CHECK((*trace)[1].output_tokens == TraceRequest::kNotStated);
}

TEST_CASE("Block-hash lines agree exactly where their ids do, the last block cut to the length") {
  const std::string text =
      "{\"timestamp\": 0, \"input_length\": 10, \"output_length\": 5, \"hash_ids\": [0, 1, 2]}\n"
      "{\"timestamp\": 3000, \"input_length\": 11, \"output_length\": 6, \"hash_ids\": [0, 1, 2]}\n"
      "{\"timestamp\": 9000, \"input_length\": 9, \"output_length\": 6, \"hash_ids\": [0, 7, 8]}\n";
  const auto trace = read(text, 4);
  REQUIRE(trace->size() == 3);
  CHECK(trace->tokens(0)->size() == 10);
  CHECK(trace->tokens(1)->size() == 11);
  CHECK(common(*trace->tokens(0), *trace->tokens(1)) == 10);
  CHECK(common(*trace->tokens(0), *trace->tokens(2)) == 4);
  CHECK((*trace)[1].arrival_seconds == 3);
  CHECK((*trace)[2].output_tokens == 6);
}

TEST_CASE("Tokens past the last hashed block are shared with nobody") {
  const std::string line = "{\"input_length\": 6, \"hash_ids\": [18446744073709551615]}\n";
  const auto trace = read(line + line, 4);
  CHECK(trace->tokens(1)->size() == 6);
  CHECK(common(*trace->tokens(0), *trace->tokens(1)) == 4);
}

TEST_CASE("Hash ids that differ only beyond 64 bits are different blocks") {
  const auto trace = read(
      "{\"input_length\": 4, \"hash_ids\": [18446744073709551616]}\n"
      "{\"input_length\": 4, \"hash_ids\": [18446744073709551617]}\n",
      4);
  CHECK(common(*trace->tokens(0), *trace->tokens(1)) == 0);
}

TEST_CASE("CSV columns come in any order, others are ignored, quotes and a byte-order mark too") {
  const auto trace = read(
      "\xEF\xBB\xBFparent,note,overlap_tokens,\"prompt_tokens\",t_ms,output_tokens\r\n"
      "-1,\"a, b\",0,5,0,1\r\n"
      "0,\xFF,3,6,2500,2\r\n"
      "1,,6,6,2500,3\r\n");
  REQUIRE(trace->size() == 3);
  CHECK((*trace)[1].overlap == 3);
  CHECK((*trace)[1].parent == 0);
  CHECK((*trace)[1].arrival_seconds == 2.5);
  CHECK((*trace)[2].output_tokens == 3);
  CHECK(common(*trace->tokens(0), *trace->tokens(1)) == 3);
  CHECK(*trace->tokens(2) == *trace->tokens(1));
}

TEST_CASE("A gzip file and a plain one of the same content are the same trace") {
  const std::string text = "prompt_tokens,overlap_tokens,parent\n7,0,-1\n9,4,0\n";
  const auto plain = read(text), packed = read(gzipped(text));
  REQUIRE(packed->size() == plain->size());
  for (std::size_t i = 0; i < plain->size(); ++i) {
    CHECK(*packed->tokens(i) == *plain->tokens(i));
  }
}

TEST_CASE("A trace that cannot be read says where and what was expected") {
  const std::string header = "prompt_tokens,overlap_tokens,parent\n";
  const auto says = [](const std::string& content, const std::string& message) {
    INFO(content);
    CHECK_THAT(refusal(content, 4), Catch::StartsWith(message));
  };
  says("", "t: expected requests, but there is no line");
  says(" \n\n", "t: expected requests, but there is no line");
  says(header, "t:1: expected rows below the header");
  says("a,b\n", "t:1: field 'prompt_tokens': expected a CSV header");
  says("\x89PNG\x01\n",
       "t:1: field 'prompt_tokens': expected a CSV header with prompt_tokens, "
       "overlap_tokens and parent, or a JSON line, got '?PNG?'");
  says(header + "5,0\n", "t:2: expected 3 columns as in the header, got 2");
  says(header + "0,0,-1\n", "t:2: field 'prompt_tokens': expected an integer from 1");
  says(header + "-3,0,-1\n", "t:2: field 'prompt_tokens': expected an integer from 1");
  says(header + "99999999999999999999,0,-1\n", "t:2: field 'prompt_tokens': expected an integer");
  says(header + "2000000000,0,-1\n", "t:2: field 'prompt_tokens': expected an integer");
  says(header + "5,x,-1\n", "t:2: field 'overlap_tokens': expected an integer from 0 to 5");
  says(header + "5,0,-1\n4,5,0\n", "t:3: field 'overlap_tokens': expected an integer from 0 to 4");
  says(header + "5,0,-1\n9,6,0\n", "t:3: field 'overlap_tokens': expected at most the parent's 5");
  says(header + "5,1,-1\n", "t:2: field 'overlap_tokens': expected at most the parent's 0");
  says(header + "5,0,-1\n5,1,1\n", "t:3: field 'parent': expected an integer from -1 to 0");
  says(header + "5,0,-2\n", "t:2: field 'parent': expected an integer from -1 to -1");
  says("t_ms," + header + "nan,5,0,-1\n", "t:2: field 't_ms': expected milliseconds");
  says("output_tokens," + header + "-1,5,0,-1\n", "t:2: field 'output_tokens': expected");
  says("[1]\n[2\n", "t:2: expected one JSON document a line: ");
  says("[1]\n[\"\xFF\"]\n", "t:2: expected one JSON document a line: ");
  says("[1]\n[]\n", "t:2: field '[]': expected an array of at least one token id");
  says("[1]\n{\"tokens\": [1, -2]}\n", "t:2: field 'tokens': expected an integer from 0");
  says("[1.5]\n", "t:1: field '[]': expected an integer from 0");
  says("[2147483648]\n", "t:1: field '[]': expected an integer from 0 to 2147483647, got");
  says("[[1]]\n", "t:1: field '[]': expected an integer from 0");
  says("{\"prompt\": 1}\n", "t:1: expected an array of token ids or an object with tokens");
  says("[1]\n{\"tokens\": [1], \"timestamp\": -1}\n", "t:2: field 'timestamp': expected");
  says("{\"hash_ids\": [1]}\n", "t:1: field 'input_length': expected a value, but it is missing");
  says("{\"hash_ids\": [1], \"input_length\": 9}\n",
       "t:1: field 'hash_ids': expected an array of 3");
  says("{\"hash_ids\": 1, \"input_length\": 3}\n", "t:1: field 'hash_ids': expected an array of 1");
  says("{\"hash_ids\": [-1], \"input_length\": 3}\n", "t:1: field 'hash_ids': expected integers");
  says("{\"hash_ids\": [1], \"input_length\": 0}\n", "t:1: field 'input_length': expected an");
  CHECK_THROWS_AS(read_trace("/nonexistent/trace"), LoadError);
}

TEST_CASE("Renamed ids never run out silently") {
  // 128 rows of 2^24 fresh tokens are one more than 31 bits number.
  std::string text = "prompt_tokens,overlap_tokens,parent\n";
  for (int i = 0; i < 128; ++i) text += "16777216,0,-1\n";
  CHECK_THAT(refusal(text), Catch::StartsWith("t:129: field 'prompt_tokens': expected at most"));
  std::string blocks;
  for (int i = 0; i < 128; ++i) {
    blocks += "{\"input_length\": 1, \"hash_ids\": [" + std::to_string(i) + "]}\n";
  }
  CHECK_THAT(refusal(blocks, 1 << 24), Catch::StartsWith("t:128: field 'hash_ids': expected at"));
}

TEST_CASE("A gzip file cut anywhere or damaged is refused") {
  std::string text = "prompt_tokens,overlap_tokens,parent\n";
  std::mt19937 rng(1);
  for (int i = 0; i < 300; ++i) text += std::to_string(1 + rng() % 100'000) + ",0,-1\n";
  const std::string packed = gzipped(text);
  REQUIRE(refusal(packed).empty());
  for (std::size_t size = 3; size < packed.size(); size += 7) {
    INFO(size);
    CHECK_FALSE(refusal(packed.substr(0, size)).empty());
  }
  CHECK_THAT(refusal(packed.substr(0, packed.size() / 2)), Catch::Contains("truncated"));
  std::string flipped = packed;
  flipped[packed.size() / 2] ^= 0x10;
  CHECK_FALSE(refusal(flipped).empty());
}

TEST_CASE("Mutated traces are read or refused, and what is read is whole") {
  const std::vector<std::string> seeds = {
      "prompt_tokens,overlap_tokens,parent\n5,0,-1\n9,4,0\n7,7,1\n",
      "{\"tokens\": [1, 2, 3]}\n[4, 5]\n",
      "{\"timestamp\": 0, \"input_length\": 10, \"output_length\": 5, \"hash_ids\": [0, 1, 2]}\n"};
  std::mt19937 rng(7);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[rng() % seeds.size()];
    for (unsigned edits = 1 + rng() % 3; edits > 0; --edits) {
      const std::size_t at = rng() % text.size();
      if (rng() % 2 == 0) {
        text[at] = static_cast<char>(rng() % 256);
      } else {
        text.insert(at, 1, "0123456789,-[]{}\"\n"[rng() % 18]);
      }
    }
    testing::TempDir dir;
    dir.write("t", text);
    try {
      const auto trace = read_trace(dir.file("t"), {.block_size = 4});
      ++accepted;
      for (std::size_t i = 0; i < trace->size(); ++i) {
        REQUIRE(std::ssize(*trace->tokens(i)) == (*trace)[i].length);
      }
    } catch (const LoadError& error) {
      REQUIRE(json::valid_utf8(error.what()));
    }
  }
  CHECK(accepted > 100);
}
