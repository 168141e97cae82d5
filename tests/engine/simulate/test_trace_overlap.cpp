// SPDX-License-Identifier: Apache-2.0
// Prompts rebuilt from a CSV trace share with earlier ones exactly what the trace says.
#include <random>
#include <unordered_map>

#include "base/check.hpp"
#include "engine/simulate/trace.hpp"
#include "tests/model/net/temp_dir.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using namespace cairn::engine;

namespace {

/// Every prefix seen so far is a number: a trie with a node a token, the plainest there is.
class PrefixOracle {
 public:
  /// Longest common prefix with all prompts before; adds this one.
  std::int32_t overlap(const std::vector<std::int32_t>& tokens) {
    std::int32_t seen = 0;
    std::uint64_t node = 0;
    for (const std::int32_t token : tokens) {
      const std::uint64_t key = (node << 31) | static_cast<std::uint64_t>(token);
      const auto [at, fresh] = children_.try_emplace(key, children_.size() + 1);
      if (!fresh) ++seen;
      node = at->second;
    }
    return seen;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> children_;
};

std::int64_t rows_off(const Trace& trace) {
  PrefixOracle oracle;
  std::int64_t off = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const auto tokens = trace.tokens(i);
    if (oracle.overlap(*tokens) != trace[i].overlap) ++off;
    if (std::ssize(*tokens) != trace[i].length) ++off;
  }
  return off;
}

std::unique_ptr<const Trace> supplied(const std::string& name) {
  return read_trace(CAIRN_SOURCE_DIR "/bench/traces/" + name + ".csv.gz");
}

}  // namespace

TEST_CASE("Rebuilt prompts of a whole trace overlap as stated") {
  const auto trace = supplied("xquad_en_live20");
  CHECK(trace->size() == 1190);
  CHECK(rows_off(*trace) == 0);
}

TEST_CASE("Rebuilt prompts of the large traces overlap as stated", "[.][large]") {
  for (const char* name : {"gsm8k8shot", "bbh3shot_live20", "mix5", "swebench_miniswe_live20"}) {
    INFO(name);
    CHECK(rows_off(*supplied(name)) == 0);
  }
}

TEST_CASE("Random chains, parents covered by their own parents among them, overlap as stated") {
  std::mt19937 rng(3);
  for (int round = 0; round < 50; ++round) {
    std::string text = "prompt_tokens,overlap_tokens,parent\n";
    std::vector<std::int32_t> lengths;
    for (int i = 0; i < 60; ++i) {
      const int parent = static_cast<int>(rng() % static_cast<unsigned>(i + 1)) - 1;
      const auto most = parent < 0 ? 0u : static_cast<unsigned>(lengths[std::size_t(parent)]);
      const auto overlap = static_cast<std::int32_t>(rng() % (most + 1));
      lengths.push_back(overlap + static_cast<std::int32_t>(rng() % 20));
      if (lengths.back() == 0) lengths.back() = 1;
      text += std::to_string(lengths.back()) + "," + std::to_string(overlap) + "," +
              std::to_string(parent) + "\n";
    }
    testing::TempDir dir;
    dir.write("t", text);
    REQUIRE(rows_off(*read_trace(dir.file("t"))) == 0);
  }
}

TEST_CASE("A chain that contradicts itself is a broken invariant") {
  const auto make = [](TraceRequest second) {
    return chain_trace({{.length = 5, .overlap = 0, .parent = -1}, second});
  };
  CHECK(rows_off(*make({.length = 9, .overlap = 5, .parent = 0})) == 0);
  CHECK_THROWS_AS(make({.length = 9, .overlap = 6, .parent = 0}), InvariantError);
  CHECK_THROWS_AS(make({.length = 4, .overlap = 5, .parent = 0}), InvariantError);
  CHECK_THROWS_AS(make({.length = 9, .overlap = 1, .parent = 1}), InvariantError);
  CHECK_THROWS_AS(make({.length = 9, .overlap = 1, .parent = -1}), InvariantError);
}
