// SPDX-License-Identifier: Apache-2.0
#include "engine/request/stream.hpp"

#include <random>

#include "base/json.hpp"
#include "model/demo/embedded.hpp"
#include "tests/support/catch.hpp"

using namespace cairn;
using engine::ChoiceStream;

namespace {

std::shared_ptr<const text::Tokenizer> demo_tokenizer() {
  static const auto tokenizer = [] {
    text::TokenizerFiles files;
    files.tokenizer_json = demo::file("tokenizer.json");
    files.tokenizer_config_json = demo::file("tokenizer_config.json");
    return text::Tokenizer::from_files(files);
  }();
  return tokenizer;
}

struct Shown {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::size_t logprobs = 0;
  bool stopped = false;
};

Shown run(const std::vector<std::int32_t>& tokens, const std::vector<std::string>& stops,
          bool logprobs = false) {
  ChoiceStream stream(demo_tokenizer(), stops, true, logprobs);
  Shown shown;
  const auto take = [&](const Delta& d) {
    shown.text += d.text;
    shown.tokens.insert(shown.tokens.end(), d.tokens.begin(), d.tokens.end());
    shown.logprobs += d.logprobs.size();
  };
  for (const std::int32_t t : tokens) {
    Delta d;
    stream.push(t, false, {}, d);
    for (const std::string& stop : stops) CHECK(d.text.find(stop) == std::string::npos);
    take(d);
  }
  Delta d;
  stream.finish(d);
  take(d);
  shown.stopped = stream.stopped();
  return shown;
}

}  // namespace

TEST_CASE("B1: a stop string that spans tokens is found and the text is cut exactly before it") {
  const auto ids = demo_tokenizer()->encode("alpha beta gamma delta", false);
  const Shown s = run(ids, {"beta gam"});
  CHECK(s.stopped);
  CHECK(s.text == "alpha ");
}

TEST_CASE(
    "B2: no prefix of a stop string is shown before it is certain, and it is shown when it was "
    "none") {
  const auto ids = demo_tokenizer()->encode("The quick brown fox jumps", false);
  CHECK(run(ids, {"own fox"}).text == "The quick br");
  CHECK(run(ids, {"own foxes"}).text == "The quick brown fox jumps");
  CHECK(run(ids, {"jumps!"}).text == "The quick brown fox jumps");
}

TEST_CASE("B4: text arrives in whole characters, whatever the tokens cut") {
  const std::string text = "caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x99\x82!";
  const auto ids = demo_tokenizer()->encode(text, false);
  ChoiceStream stream(demo_tokenizer(), {}, true, false);
  std::string all;
  for (const std::int32_t id : ids) {
    Delta d;
    stream.push(id, false, {}, d);
    CHECK(json::valid_utf8(d.text));
    all += d.text;
  }
  Delta d;
  stream.finish(d);
  CHECK(all + d.text == text);
}

TEST_CASE("every token and its log-prob come out once when no stop string matches") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> ids(1 + random() % 30);
    for (auto& id : ids) id = static_cast<std::int32_t>(random() % 4000);
    const Shown s = run(ids, {"zz\x01never", "e "}, true);
    if (s.stopped) continue;
    CHECK(s.tokens == ids);
    CHECK(s.logprobs == ids.size());
    CHECK(s.text == demo_tokenizer()->decode(ids, true));
  }
}

TEST_CASE("tokens of a stop string are counted as generated but not handed out") {
  const auto ids = demo_tokenizer()->encode("one STOP two", false);
  ChoiceStream stream(demo_tokenizer(), {"STOP"}, true, false);
  std::vector<std::int32_t> tokens;
  for (const std::int32_t id : ids) {
    Delta d;
    stream.push(id, false, {}, d);
    tokens.insert(tokens.end(), d.tokens.begin(), d.tokens.end());
  }
  CHECK(stream.stopped());
  CHECK(demo_tokenizer()->decode(tokens, true).find("STOP") == std::string::npos);
  CHECK(stream.generated() > static_cast<std::int32_t>(tokens.size()));
}

TEST_CASE("a token that ends the answer shows nothing and is counted") {
  ChoiceStream stream(demo_tokenizer(), {}, false, true);
  Delta d;
  stream.push(demo_tokenizer()->eos_ids().front(), true, {}, d);
  CHECK(d.text.empty());
  CHECK(d.tokens.empty());
  CHECK(stream.generated() == 1);
}

TEST_CASE("without a tokenizer tokens pass through and text stays empty") {
  ChoiceStream stream(nullptr, {"x"}, true, false);
  Delta d;
  stream.push(7, false, {}, d);
  CHECK(d.tokens == std::vector<std::int32_t>{7});
  CHECK(d.text.empty());
}
