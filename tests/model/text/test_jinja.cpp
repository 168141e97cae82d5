// SPDX-License-Identifier: Apache-2.0
// The language in examples; tests/e2e/jinja_oracle.py compares it with the reference at length.
#include "model/text/jinja.hpp"

#include "tests/model/text/test_chat_support.hpp"

using namespace cairn;
using namespace cairn::text;
using namespace cairn::text::testing;

namespace {

std::string shown(const std::string& source, const char* context = "{}") {
  const auto parsed = jinja::Template::parse(source);
  if (!parsed.ok()) return parsed.error().message;
  std::vector<jinja::Variable> variables;
  const json::Value values = parse_json(context);
  for (const auto& [name, value] : values.members())
    variables.push_back({name, value, jinja::Origin::data});
  const auto text = parsed->render(variables, {}, 0);
  return text.ok() ? text->bytes() : text.error().message;
}

}  // namespace

TEST_CASE("a block's line leaves no white space behind, signs take or keep more") {
  CHECK(shown("a\n  {% if true %}\n  b\n  {% endif %}\nc\n") == "a\n  b\nc");
  CHECK(shown("a  {%- if true -%}  b  {%- endif -%}  c") == "abc");
  CHECK(shown("  {%+ if true +%}\nb{% endif %}") == "  \nb");
  CHECK(shown("a {#- gone -#} b{% raw %}{{ x }}{% endraw %}") == "ab{{ x }}");
}

TEST_CASE("values print as Python prints them") {
  CHECK(shown("{{ none }} {{ true }} {{ 1.0 }} {{ 1e16 }} {{ 0.1 + 0.2 }}") ==
        "None True 1.0 1e+16 0.30000000000000004");
  CHECK(shown("{{ ['it\\'s', (1,), {'k': none}] }}") == "[\"it's\", (1,), {'k': None}]");
  CHECK(shown("{{ 7 // -2 }} {{ -7 % 3 }} {{ 2 ** -1 }} {{ 7 / 2 }}") == "-4 2 0.5 3.5");
}

TEST_CASE("tojson follows json.dumps: order, numbers, separators, letters kept") {
  const char* context =
      R"({"v": {"b": 1.0, "a": [1e5, 123456789012345678901234567890, -0, 1E-7], "é": "<\"\\\u0001>"}})";
  CHECK(
      shown("{{ v|tojson }}", context) ==
      R"({"b": 1.0, "a": [100000.0, 123456789012345678901234567890, 0, 1e-07], "é": "<\"\\\u0001>"})");
  CHECK(shown("{{ [{'k': []}]|tojson(indent=1) }}") == "[\n {\n  \"k\": []\n }\n]");
}

TEST_CASE("scopes: a loop's variables stay inside, a namespace carries them out") {
  CHECK(shown("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{% endfor %}{{ x }}") == "1");
  CHECK(shown("{% set n = namespace(x=1) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor "
              "%}{{ n.x }}") == "4");
}

TEST_CASE("loops know their place, filter, break and continue") {
  CHECK(shown("{% for x in 'abcd' if x != 'b' %}{{ loop.index }}{{ x }}{{ loop.nextitem }} {% "
              "endfor %}") == "1ac 2cd 3d ");
  CHECK(shown("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% "
              "break %}{% endif %}{{ x }}{% endfor %}") == "02");
}

TEST_CASE("an undefined value prints nothing, its attributes are errors") {
  CHECK(shown("[{{ nope }}{{ {}.x }}]") == "[]");
  CHECK(shown("\n{{ nope.x }}") == "chat template, line 2: 'nope' is undefined");
  CHECK(shown("{{ raise_exception('Own words.') }}") == "Own words.");
}

TEST_CASE("time is the caller's") { CHECK(shown("{{ strftime_now('%Y')|length }}") == "4"); }
