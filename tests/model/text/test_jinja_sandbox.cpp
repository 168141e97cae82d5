// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <random>

#include "model/text/jinja.hpp"
#include "tests/model/text/test_chat_support.hpp"

using namespace cairn;
using namespace cairn::text;
using namespace cairn::text::testing;
using jinja::Origin;
using jinja::Template;

namespace {

RenderLimits small_limits() {
  RenderLimits limits;
  limits.max_steps = 2'000'000;
  limits.max_memory_bytes = 32U << 20;
  limits.max_string_bytes = 4U << 20;
  limits.max_output_bytes = 4U << 20;
  return limits;
}

std::string outcome(const std::string& source) {
  const auto parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.error().message;
  const auto text =
      parsed->render({{"xs", parse_json("[1, 2, 3]"), Origin::data}}, small_limits(), 0);
  return text.ok() ? text->bytes() : text.error().message;
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("a template without end stops with a clear error, quickly") {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ 'a' * 10**9 }}", "line 1: a string exceeds 4194304 bytes"},
      {"{{ [1] * 10**12 }}", "bytes of memory"},
      {"{{ 'ab' * 9223372036854775807 }}", "a string exceeds"},
      {"\n{% for x in range(10**12) %}x{% endfor %}", "line 2: range() of more than 1000000 items"},
      {"{{ range(999999)|list|length }}{{ range(9999999)|list }}", "range() of more than"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested more than 400 levels deep"},
      {"{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor "
       "%}{% endfor %}{% endfor %}",
       "steps"},
      {"{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
       "writes more than 4194304 bytes"},
      {"{{ (['x' * 1000000] * 1000)|join }}", "a string exceeds"},
      {"{{ ('a' * 1000000).replace('a', 'b' * 1000) }}", "a string exceeds"},
      {"{{ ('a' * 1000000)|replace('', 'bbbbbbbbbb') }}", "a string exceeds"},
      {"{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% "
       "endfor %}",
       "a string exceeds"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% "
       "endfor %}",
       "bytes of memory"},
      {"{% set ns = namespace(x=[]) %}{% for i in range(999999) %}{% set ns.x = [ns.x] %}{% endfor "
       "%}",
       "nested too deeply"},
      {"{% set ns = namespace(x=[]) %}{% for i in range(999999) %}{% set ns.x = [ns.x]|select %}{% "
       "endfor %}",
       "nested too deeply"},
      {"{% set ns = namespace(x=[]) %}{% for i in range(999999) %}{% set ns.x = [ns.x].copy %}{% "
       "endfor %}",
       "nested too deeply"},
      {"{% set ns = namespace(x=[]) %}{% for i in range(999999) %}{% set ns.x = [ns.x ~ ns.x] %}{% "
       "endfor %}",
       "bytes of memory"},
      {"{% set ns = namespace() %}{% for i in range(999999) %}{% set o = namespace(p=ns.x) %}{% "
       "set ns.x = o %}{% endfor %}{{ ns }}",
       "bytes of memory"},
      {"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "nested too deeply"},
      {"{% set ns = namespace(x=1) %}{% for i in range(999) %}{% set ns.x = [ns.x, ns.x] if i < "
       "100 else ns.x %}{% endfor %}{{ ns.x }}",
       "a string exceeds"},
      {"{{ '%1000000000s' % 1 }}", "a string exceeds"},
      {"{% set a = namespace(x=1, y=1) %}{% for i in range(99) %}{% set a.x = [a.x, a.x] %}{% set "
       "a.y = [a.y, a.y] %}"
       "{% endfor %}{{ a.x == a.y }}",
       "steps"},
      {"{% set a = namespace(x=(1,)) %}{% for i in range(99) %}{% set a.x = (a.x, a.x) %}{% endfor "
       "%}{{ {a.x: 1} }}",
       "too large for a key"},
      {"{{ 'a'.ljust(10**10) }}", "a string exceeds"},
      {"{{ 'a\nb'|indent(10**10) }}", "a string exceeds"},
      {"{{ [1]|tojson(indent=10**10) }}", "a string exceeds"},
      {"{{ 9223372036854775807 + 1 }}", "does not fit 64 bits"},
      {"{{ 10 ** 1000000000000 }}", "does not fit 64 bits"},
      {"{{ -9223372036854775807 - 2 }}", "does not fit 64 bits"},
  };
  for (const auto& [source, wanted] : cases) {
    const std::clock_t start = std::clock();
    const std::string message = outcome(source);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    INFO(source << " -> " << message.substr(0, 300));
    CHECK(message.find(wanted) != std::string::npos);
    CHECK(seconds < 10);
  }
}

TEST_CASE("source that nests without bound is refused, not followed") {
  for (const char* open :
       {"(", "[", "{1:", "-", "not ", "'a'.x(", "1 if 1 else ", "[1][", "x|f("}) {
    INFO(open);
    CHECK(outcome("{{ " + repeated(open, 100000) + "1").find("line 1") != std::string::npos);
  }
  CHECK(outcome("{{ 1" + repeated(" + 1", 100000) + " }}").find("nested too deeply") !=
        std::string::npos);
  CHECK(outcome("{{ 'a'" + repeated("|upper", 100000) + " }}").find("nested too deeply") !=
        std::string::npos);
  CHECK(outcome("{{ xs" + repeated(".x", 100000) + " }}").find("nested too deeply") !=
        std::string::npos);
  CHECK(outcome(repeated("{% if 1 %}", 100000)).find("nested too deeply") != std::string::npos);
  CHECK(outcome(repeated("{% for x in xs %}", 100000)).find("nested too deeply") !=
        std::string::npos);
  CHECK(outcome("{{ 1" + repeated(" ~ 1", 10000) + " }}").size() == 10001);
  CHECK(outcome("{% if 0 %}" + repeated("{% elif 0 %}", 10000) + "{% else %}x{% endif %}") == "x");
}

TEST_CASE("objects that hold themselves are freed") {
  CHECK(outcome("{% set ns = namespace() %}{% set ns.me = [ns] %}{% macro m() %}{{ ns }}{% "
                "endmacro %}{% set ns.m = m %}ok") == "ok");
  CHECK(outcome("{% for x in xs %}{{ loop.changed(loop) }}{% endfor %}") == "TrueFalseFalse");
}

TEST_CASE("unsupported constructs are named with their line") {
  const std::pair<const char*, const char*> cases[] = {
      {"\n{% include 'x' %}", "line 2: the statement 'include' is not supported"},
      {"\n{% extends 'x' %}", "line 2: the statement 'extends' is not supported"},
      {"a\nb {{ 'x'|wordwrap(3) }}", "line 2: the filter 'wordwrap' is not supported"},
      {"\n\n{{ 1 is weird }}", "line 3: the test 'weird' is not supported"},
      {"{{\n 'x'.zfill(3) }}", "line 2: the method 'zfill' of str is not supported"},
      {"{{ xs.append(1) }}", "'append' would change a list, which templates may not"},
      {"{{ 'x'.__class__.__mro__ }}", "'__class__' is not allowed"},
      {"{% for x in xs recursive %}{% endfor %}", "recursive loops are not supported"},
      {"{{ nope.x }}", "line 1: 'nope' is undefined"},
  };
  for (const auto& [source, wanted] : cases) {
    const std::string message = outcome(source);
    INFO(source << " -> " << message);
    CHECK(message.find(wanted) != std::string::npos);
  }
}

TEST_CASE("mutated templates never crash") {
  const std::string original = demo_template();
  const json::Value messages = parse_json(
      R"([{"role":"system","content":"s"},{"role":"user","content":"é <|im_end|>"},{"role":"assistant","content":"<think>a</think>b",
          "tool_calls":[{"function":{"name":"f","arguments":{"a":[1.5,null]}}}]},{"role":"tool","content":"t"}])");
  const std::string pieces[] = {
      "{{", "}}",         "{%",          "%}",           "{#",      "#}",     "|",    "(",
      ")",  "'",          "\"",          " if ",         " for ",   "[::-1]", ".x",   "~",
      "**", "loop",       "{% endif %}", "{% endfor %}", "|tojson", "|list",  "\xC3", "\n",
      "-",  "9999999999", " is ",        " in ",         "\\"};
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int rendered = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string source = original;
    const std::size_t edits = 1 + below(4);
    for (std::size_t e = 0; e < edits; ++e) {
      const std::size_t at = below(source.size());
      const std::size_t span = std::min(below(12) + 1, source.size() - at);
      switch (below(4)) {
        case 0:
          source.erase(at, span);
          break;
        case 1:
          source.insert(at, pieces[below(std::size(pieces))]);
          break;
        case 2:
          source.insert(at, source.substr(below(source.size()), span));
          break;
        default:
          source[at] = static_cast<char>(random());
      }
    }
    const auto parsed = Template::parse(source);
    if (!parsed.ok()) {
      CHECK(parsed.error().message.find("chat template") == 0);
      continue;
    }
    const auto text =
        parsed->render({{"messages", messages, Origin::data},
                        {"add_generation_prompt", json::Value::boolean(true), Origin::data}},
                       small_limits(), 0);
    rendered += text.ok() ? 1 : 0;
  }
  CHECK(rendered > 50);
}
