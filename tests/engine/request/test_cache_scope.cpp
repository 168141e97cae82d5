// SPDX-License-Identifier: Apache-2.0
#include "engine/request/cache_scope.hpp"

#include <map>
#include <random>
#include <utility>

#include "tests/support/catch.hpp"

using namespace cairn::engine;

TEST_CASE("without key and salt everything is shared; with either nothing is shared with that") {
  CHECK(cache_scope_of("", "").empty());
  CHECK(cache_scope_of("k", "").size() == 32);
  CHECK(cache_scope_of("", "k").size() == 32);
  CHECK(cache_scope_of("", "k") != cache_scope_of("k", ""));
  CHECK(cache_scope_of("k", "s") == cache_scope_of("k", "s"));
}

TEST_CASE("a scope does not hold the key or the salt") {
  const std::string key = "sk-0123456789abcdef", salt = "pepper-and-salt";
  const std::string scope = cache_scope_of(key, salt);
  for (std::size_t i = 0; i + 4 <= key.size(); ++i)
    CHECK(scope.find(key.substr(i, 4)) == std::string::npos);
  for (std::size_t i = 0; i + 4 <= salt.size(); ++i)
    CHECK(scope.find(salt.substr(i, 4)) == std::string::npos);
}

// Strings over an alphabet that an encoding could mistake for its own marks, short enough that
// many pairs concatenate to the same text.
TEST_CASE("equal scopes come from equal pairs") {
  std::mt19937_64 random(20);
  const std::string alphabet("a1:0 \0\n", 7);
  const auto word = [&] {
    std::string text(random() % 7, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    return text;
  };
  std::map<std::string, std::pair<std::string, std::string>> seen;
  int repeats = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::pair<std::string, std::string> pair{word(), word()};
    const auto [it, fresh] = seen.emplace(cache_scope_of(pair.first, pair.second), pair);
    REQUIRE(it->second == pair);
    repeats += fresh ? 0 : 1;
  }
  CHECK(repeats > 100);
}
