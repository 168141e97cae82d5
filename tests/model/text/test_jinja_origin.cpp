// SPDX-License-Identifier: Apache-2.0
// Who wrote a byte survives everything a template can do to text.
#include "model/text/jinja.hpp"
#include "tests/model/text/test_chat_support.hpp"

using namespace cairn;
using namespace cairn::text;
using namespace cairn::text::testing;
using jinja::Origin;
using jinja::OriginText;
using jinja::Template;

namespace {

// Data is written in capital Greek letters, digits and '#', templates in nothing of that.
const char* const kData =
    R"({"s": "ΑΒ Γ#Δ\nΕΖ", "n": 7, "f": 2.5, "xs": ["ΑΒ", "ΓΔ", "Ε"], "d": {"ΚΛ": "ΜΝ", "Ξ": ["Ο", 1]},
  "people": [{"name": "ΠΡ", "age": 3}, {"name": "ΣΤ", "age": 9}]})";

OriginText render(const std::string& source) {
  const auto parsed = Template::parse(source);
  INFO(source);
  if (!parsed.ok()) FAIL(parsed.error().message);
  std::vector<jinja::Variable> variables;
  const json::Value data = parse_json(kData);
  for (const auto& [name, value] : data.members()) variables.push_back({name, value, Origin::data});
  const auto text = parsed->render(variables, {}, 0);
  if (!text.ok()) FAIL(text.error().message);
  return *text;
}

// The text with template stretches in angle brackets.
std::string marked(const std::string& source) {
  const OriginText text = render(source);
  std::string out;
  std::size_t begin = 0;
  for (const auto& run : text.runs()) {
    const std::string piece = text.bytes().substr(begin, run.end - begin);
    out += run.origin == Origin::from_template ? "<" + piece + ">" : piece;
    begin = run.end;
  }
  CHECK(begin == text.size());
  return out;
}

bool is_data_byte(char c) { return (c & 0x80) != 0 || (c >= '0' && c <= '9') || c == '#'; }

}  // namespace

TEST_CASE("template text and data are told apart through every way of joining them") {
  CHECK(marked("ab{{ s }}c") == "<ab>ΑΒ Γ#Δ\nΕΖ<c>");
  CHECK(marked("{{ 'x' + s[:2] + 'y' }}") == "<x>ΑΒ<y>");
  CHECK(marked("{{ 'x' ~ n ~ 'y' ~ f }}") == "<x>7<y>2.5");
  CHECK(marked("{{ ['x', xs[0], 'y']|join('-') }}") == "<x->ΑΒ<-y>");
  CHECK(marked("{{ '+'.join(xs) }}") == "ΑΒ<+>ΓΔ<+>Ε");
  CHECK(marked("{{ (('x' ~ s[0]) * 2)[::-1] }}") == "Α<x>Α<x>");
  CHECK(marked("{{ ('  x' ~ ' Α '[1:2] ~ xs[0] ~ '  ')|trim }}") == "<xΑ>ΑΒ");
  CHECK(marked("{{ s|replace('Γ', 'x') }}") == "ΑΒ <x>#Δ\nΕΖ");
  CHECK(marked("{{ s.replace('Γ', xs[1]) }}") == "ΑΒ ΓΔ#Δ\nΕΖ");
  CHECK(marked("{{ ('x' ~ s ~ 'y').split('#')[1] }}") == "Δ\nΕΖ<y>");
  CHECK(marked("{{ ('ab' ~ xs[0]|lower)|upper }}") == "<AB>ΑΒ");
  CHECK(marked("{{ {'k': xs[0]}|tojson }}") == "{\"<k>\": \"ΑΒ\"}");
  CHECK(marked("{{ ['k', xs[0]] }}") == "['<k>', 'ΑΒ']");
  CHECK(marked("{{ '%s is %d' % (xs[0], n) }}") == "ΑΒ< is >7");
  CHECK(marked("{% set v %}a{{ xs[0] }}{% endset %}{{ v }}") == "<a>ΑΒ");
  CHECK(marked("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(xs[0]) ~ m('q') }}") == "<[>ΑΒ<][q]>");
  CHECK(marked("{% filter upper %}a{{ xs[0] }}{% endfilter %}") == "<A>ΑΒ");
  CHECK(marked("{% for c in 'a' ~ xs[0] %}{{ c }}{% endfor %}") == "<a>ΑΒ");
  CHECK(marked("{{ nope|default('x') }}{{ nope|default(xs[0]) }}") == "<x>ΑΒ");
  CHECK(marked("{{ (xs[0] ~ '\n' ~ xs[1])|indent(1) }}") == "ΑΒ\n ΓΔ");
  CHECK(marked("{{ loop is defined }}{{ none }}{{ n + 1 }}") == "FalseNone8");
}

TEST_CASE("no filter, method or operator turns data into template text") {
  const std::string subjects[] = {
      "s",         "('<|im_' ~ s ~ 'start|>')", "xs[0]", "n", "f", "xs", "d", "people", "('t' ~ n)",
      "[s, 'lit']"};
  const std::string operations[] = {"%|upper",
                                    "%|lower",
                                    "%|title",
                                    "%|capitalize",
                                    "%|trim",
                                    "%|trim('Α')",
                                    "%|string",
                                    "%|tojson",
                                    "%|tojson(indent=2)",
                                    "%|tojson(separators=(';', '='))",
                                    "%|list|join('_')",
                                    "%|join('|')",
                                    "%|first",
                                    "%|list|last",
                                    "%|reverse|list|join",
                                    "%|replace('Β', 'xy')",
                                    "%|replace(s, 'z')",
                                    "%|replace('', '-')",
                                    "%|default('q')",
                                    "%|e",
                                    "%|safe",
                                    "%|indent(2, true)",
                                    "%|int",
                                    "%|float",
                                    "%|round",
                                    "%|abs",
                                    "%|length",
                                    "%|unique|list",
                                    "%|sort|join(',')",
                                    "%|map('string')|join(',')",
                                    "%|map('upper')|list",
                                    "%|select|list",
                                    "%|map(attribute='name')|join('+')",
                                    "%|dictsort",
                                    "%|items|list",
                                    "%|center(20)",
                                    "'%%s!'|format(%)",
                                    "% ~ 'lit'",
                                    "'lit' ~ %",
                                    "% + 'lit'",
                                    "% * 2",
                                    "%[0]",
                                    "%[1:]",
                                    "%[::-1]",
                                    "%[:3]",
                                    "%.strip()",
                                    "%.split()",
                                    "%.split('#')",
                                    "%.rsplit('Γ', 1)",
                                    "%.splitlines()",
                                    "%.upper()",
                                    "%.lower()",
                                    "%.title()",
                                    "%.capitalize()",
                                    "%.replace('Δ', 'k')",
                                    "%.replace('Δ', xs[2], 1)",
                                    "', '.join(%)",
                                    "%.partition('Γ')",
                                    "%.rpartition('Γ')",
                                    "%.ljust(12, '.')",
                                    "%.rjust(12)",
                                    "%.center(12, '*')",
                                    "%.removeprefix('Α')",
                                    "%.removesuffix('Ζ')",
                                    "%.items()",
                                    "%.values()|list",
                                    "%.keys()|join",
                                    "%.get('ΚΛ')",
                                    "'%%s-%%s' % (%, 'z')",
                                    "[%, 'z']",
                                    "{'k': %}",
                                    "{s: 'v', 'w': %}",
                                    "(% if n else 'x')",
                                    "(% or 'x')",
                                    "%|tojson(ensure_ascii=true)",
                                    "%|string|escape",
                                    "[%, %]|join(s)",
                                    "'-'.join([%|string, 'u'])",
                                    "%|string|list|reverse|join",
                                    "%.lstrip('Α<')",
                                    "%.rstrip('Ζ>')"};
  int rendered = 0;
  for (const std::string& subject : subjects) {
    for (const std::string& operation : operations) {
      std::string expression;
      for (std::size_t i = 0; i < operation.size(); ++i) {
        if (operation[i] == '%' && operation.compare(i, 2, "%%") == 0) {
          expression += operation[++i];
        } else if (operation[i] == '%' && !(operation.compare(i, 3, "% (") == 0)) {
          expression += subject;
        } else {
          expression += operation[i];
        }
      }
      const auto parsed = Template::parse("{{ " + expression + " }}");
      INFO(expression);
      REQUIRE(parsed.ok());
      std::vector<jinja::Variable> variables;
      const json::Value data = parse_json(kData);
      for (const auto& [name, value] : data.members())
        variables.push_back({name, value, Origin::data});
      const auto text = parsed->render(variables, {}, 0);
      if (!text.ok()) continue;  // not every operation fits every subject
      ++rendered;
      std::size_t begin = 0;
      for (const auto& run : text->runs()) {
        REQUIRE(run.end > begin);
        if (run.origin == Origin::from_template) {
          const std::string piece = text->bytes().substr(begin, run.end - begin);
          // Literals of the operations above spell letters that data spells too: only whole data
          // words count.
          for (const char* word : {"#", "ΕΖ", "ΜΝ", "ΠΡ", "ΣΤ", "εζ", "7"})
            CHECK(piece.find(word) == std::string::npos);
        }
        begin = run.end;
      }
      CHECK(begin == text->size());
    }
  }
  CHECK(rendered > 350);
}

TEST_CASE("numbers and punctuation that the interpreter prints count as data") {
  const OriginText text = render("{{ xs|tojson }}{{ d }}{{ 12 }}{{ loop is defined }}");
  CHECK(text.runs().size() == 1);
  CHECK(text.runs()[0].origin == Origin::data);
  CHECK(is_data_byte(text.bytes()[text.size() - 6]));
}
