// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>
#include <vector>

#include "engine/request/stop_matcher.hpp"
#include "tests/support/catch.hpp"

using cairn::engine::StopMatcher;

namespace {

struct Shown {
  std::string text;
  bool stopped;
};

Shown feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string shown;
  for (const auto& piece : pieces) shown += matcher.push(piece);
  const bool stopped = matcher.stopped();
  shown += matcher.finish();
  return {shown, stopped};
}

// The rule said directly: the stop string completed first; among those completed together, the
// longest.
Shown oracle(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const auto& stop : stops)
      if (!stop.empty() && stop.size() <= end &&
          text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

}  // namespace

TEST_CASE("B1 a stop string of several tokens is found and cut exactly before") {
  const auto out = feed({"beta gamma"}, {"alpha", " beta", " gamma", " delta"});
  CHECK(out.text == "alpha ");
  CHECK(out.stopped);
  CHECK(feed({"Pari"}, {"The capital is", " Paris", "."}).text == "The capital is ");
}

TEST_CASE("B2 no part of a stop string is ever shown") {
  StopMatcher matcher({"own fox"});
  CHECK(matcher.push("The quick br") == "The quick br");
  CHECK(matcher.push("own") == "");
  CHECK(matcher.held_bytes() == 3);
  CHECK(matcher.push(" f") == "");
  CHECK(matcher.push("ox jumps") == "");
  CHECK(matcher.stopped());
  CHECK(matcher.push("more") == "");
  CHECK(matcher.finish() == "");
}

TEST_CASE("B2 what was held back is released when it turns out otherwise and at the end") {
  StopMatcher matcher({"own fox"});
  CHECK(matcher.push("brown f") == "br");
  CHECK(matcher.push("rog, own") == "own frog, ");
  CHECK(matcher.finish() == "own");
  CHECK_FALSE(matcher.stopped());
}

TEST_CASE("of stop strings completed by the same byte the longest cuts") {
  CHECK(feed({"c", "abc"}, {"xabc"}).text == "x");
  CHECK(feed({"bc", "abcd"}, {"xabcd"}).text == "xa");
}

TEST_CASE("without stop strings text passes through, and empty ones match nothing") {
  CHECK(feed({}, {"a", "b"}).text == "ab");
  CHECK(feed({""}, {"a", "b"}).text == "ab");
  CHECK_FALSE(feed({""}, {"a"}).stopped);
}

TEST_CASE("any cutting of the text gives what the rule gives, shown as early as it may be") {
  std::mt19937 rng(7);
  const auto word = [&](std::size_t most) {
    std::string s(rng() % most + 1, 'a');
    for (char& c : s) c = static_cast<char>('a' + rng() % 2);
    return s;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(rng() % 4);
    for (auto& stop : stops) stop = word(6);
    const std::string text = word(40);
    StopMatcher matcher(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t piece = rng() % 7 + 1;
      shown += matcher.push(text.substr(at, piece));
      at = std::min(text.size(), at + piece);
      if (matcher.stopped()) break;
      std::size_t keep = 0;
      for (const auto& stop : stops)
        for (std::size_t k = 1; k < stop.size() && k <= at; ++k)
          if (text.compare(at - k, k, stop, 0, k) == 0) keep = std::max(keep, k);
      REQUIRE(shown == text.substr(0, at - keep));
    }
    const auto want = oracle(stops, text);
    REQUIRE(matcher.stopped() == want.stopped);
    REQUIRE(shown + matcher.finish() == want.text);
  }
}

TEST_CASE("a long periodic text against a long periodic stop string stays linear") {
  const std::string stop = std::string(4000, 'a') + "b";
  StopMatcher matcher({stop});
  std::string shown;
  for (int i = 0; i < 2000; ++i) shown += matcher.push(std::string(1000, 'a'));
  CHECK(shown.size() == 2'000'000 - 4000);
  CHECK(matcher.held_bytes() == 4000);
}
