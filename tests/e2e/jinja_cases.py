# SPDX-License-Identifier: Apache-2.0
"""Templates that together use every construct the interpreter knows."""

CONTEXT = {
    "n": 5, "f": 2.5, "big": 123456789012345678901234567890, "s": "abc abc", "u": "Zażółć 🙂 Straße",
    "text": " line one\n\n  line two\r\nthree ", "xs": [1, 2, 3, 4], "words": ["beta", "Alpha", "gamma"],
    "people": [{"name": "Ann", "age": 30}, {"name": "bob", "age": 7}, {"name": "Cid"}],
    "d": {"b": 1.0, "a": [1e5, None, True], "items": "shadowed", "nested": {"x": "y"}},
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"},
                 {"role": "assistant", "content": "Hello!", "tool_calls": [
                     {"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [1, "é"]}}}]},
                 {"role": "tool", "content": "{\"t\": 20}"}, {"role": "user", "content": "Bye"}],
    "tools": [{"type": "function", "function": {"name": "w", "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "enum": ["a", "b"], "default": None}, "n": {"type": "integer", "minimum": 1.50}}}}}],
    "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>",
}

EXPRESSIONS = r"""
1 + 2 * 3 ** 2 - 7 // 2 % 3
-7 // 2, -7 % 3, 7 // -2, 7 % -3, -7.5 // 2, -7.5 % 2, 7.5 % -2
2 ** 10, 2 ** -1, 2.0 ** 0.5, (-2) ** 3, -2 ** 2, 2 ** 3 ** 2
7 / 2, 6 / 3, 1 / 3, 1e16, 1e15, 123456789.123, 1e-5, 0.0001, 1.5e300, 5e-324
0.1 + 0.2, 100.0, -0.0, 1e22, 1e100, 3.0 * 2
true + true, 1 == 1.0, true == 1, 'a' < 'b', [1, 2] < [1, 3], (1,) < (1, 2)
1 < 2 < 3, 1 < 3 < 2, 1 == 1 != 2, 3 > 2 >= 2
'a' in 'abc', 'z' not in 'abc', 2 in xs, 'a' in d, 5 in {'x': 5}.values(), 3 in range(5), none in [none]
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x'] ~ {'k': "it's"}
'a' 'b' "c"
'ab' * 3, 3 * 'ab', [1] * 2, 'x' * -1, (1, 2) * 2
not true or true and false, not (1 and 0), 1 and 'x', 0 or 'y', '' or none
1 if true else 2, (1 if false), 'a' if '' else 'b' if 0 else 'c'
[1, 'two', 3.0, none, true, [4], {'five': 6}, (7,), ()]
{'a': 1, 'b': {'c': [1, 2]}, 1: 'one', 2.5: 'x', none: 0, true: 'yes'}
'it\'s', "say \"hi\"", '\n\t\\', '\x41\u00e9\U0001F642', '\q'
['it\'s', "q\"q", 'both\'"', 'tab\t', 'nl\n', 'é🙂', '\x7f\x01\u200b\u00a0\\']
"abcdef"[1], "abcdef"[-1], "abcdef"[1:3], "abcdef"[::-1], "abcdef"[::2], "abcdef"[-3:], "abcdef"[10:], "abcdef"[4:1:-1]
u[0:6], u[-1], u[::-1], u|length, u[8], u[7:9], u.find('S'), u.upper(), u.lower(), u|title
xs[0], xs[-1], xs[1:3], xs[::-1], xs[10], xs[-10:2], xs[5:0:-2], (1, 2, 3)[1:]
d.b, d['a'], d.a[0], d.nope, d['nope'], d.nested.x, d['items'], d.get('b'), d.get('zz'), d.get('zz', 4)
d.items()|list, d.keys()|list, d.values()|list, d|items|list, d|length, d|list
d.items(), d.keys(), d.values()
people[0].name, people.0.name, people[2].age is defined, people[0]['age'] + 1
missing, missing is defined, missing is undefined, missing|default('x'), missing|d, missing or 'y', not missing
missing|length, missing|list, missing|join, missing|upper, missing|string, missing ~ 'z', missing == missing, missing == none
d.nope is defined, d.nope|default(1), d.nope|default(none) is none, ''|default('e'), ''|default('e', true), 0|default(7, boolean=true)
n is number, n is integer, f is float, true is number, true is integer, true is boolean, 1 is boolean
s is string, none is none, d is mapping, xs is sequence, s is sequence, d is sequence, 5 is iterable, s is iterable, d.items() is sequence
true is true, 1 is true, false is false, 0 is false, n is odd, n is even, n is divisibleby 5, n is divisibleby(2)
n is eq 5, n is equalto(5), n is ne 5, n is gt 4, n is lt 4, n is ge 5, n is le 5, n is in [1, 5], 'abc' is lower, 'ABC' is upper
n is not none and n is not string, not n is none, n is sameas n, 'upper' is filter, 'odd' is test, 'nope' is filter, namespace is callable
big, big is integer, [big], big|tojson, {'b': big}|tojson
'  x y '.strip() ~ '|', 'xxaxx'.strip('x'), 'xyaxy'.lstrip('yx'), 'a--'.rstrip('-'), '\u3000a\u00a0'.strip()
'a,b,,c'.split(','), ' a  b '.split(), 'a b c'.split(' ', 1), 'a b c'.rsplit(' ', 1), 'a b c'.rsplit(None, 1), 'a b c '.split(none, 1), ''.split(), ''.split(',')
'one\ntwo\r\nthree\n\nx'.splitlines(), 'one\ntwo\n'.splitlines(true), 'a<T>b<T>c'.split('<T>')[-1], 'aXbXc'.rsplit('X', maxsplit=1)
'abc'.startswith('ab'), 'abc'.endswith('bc'), 'abc'.startswith(('x', 'a')), 'abc'.startswith('b', 1), 'abc'.endswith('b', 0, 2), 'abc'.startswith('')
'aXbXc'.replace('X', '--'), 'aXbXc'.replace('X', '', 1), 'abc'.replace('', '.'), 'aaa'.replace('aa', 'b'), 'é'.replace('', '-')
'hello world'.title(), "they're bill's".title(), 'hELLO'.capitalize(), 'MiXed'.lower(), 'MiXed'.upper(), "they're (x) a-b"|title, 'é'.upper()
', '.join(['a', 'b']), '-'.join('abc'), ''.join([]), 'x'.join(['only'])
'banana'.find('an'), 'banana'.find('an', 2), 'banana'.find('zz'), 'banana'.rfind('an'), 'banana'.count('an'), 'banana'.count(''), 'banana'.index('n'), 'éa'.find('a')
'banana'.partition('n'), 'banana'.rpartition('n'), 'banana'.partition('z'), 'banana'.rpartition('z'), 'prefix-x'.removeprefix('prefix-'), 'x.y'.removesuffix('.y')
'12'.isdigit(), 'a1'.isdigit(), 'ab'.isalpha(), 'a1'.isalnum(), ' '.isspace(), ''.isspace(), 'ab'.islower(), 'AB'.isupper(), 'a'.ljust(3, '.') ~ '|', 'a'.rjust(3), 'a'.center(4) ~ '|', 'ab'.center(5, '*')
[1, 2, 2].count(2), [1, 2].index(2), (1, 2).index(2), 'x' in ['x']
xs|length, xs|count, s|length, d|length, range(10)|length, people|map(attribute='name')|join(', ')
xs|first, xs|last, s|first, s|last, []|first, []|last, [none]|first, d|first
xs|join, xs|join('-'), words|join(', '), [1, [2], none, true]|join('|'), people|join(',', attribute='name'), 'abc'|join('.')
words|sort, words|sort(case_sensitive=true), words|sort(reverse=true), [3, 1, 2]|sort, people|sort(attribute='name')|map(attribute='name')|list, [[2, 1], [1, 9]]|sort
words|map('upper')|list, words|map('length')|list, [' a ']|map('trim')|list, xs|map('string')|join, words|map('replace', 'a', 'o')|list
people|map(attribute='age', default=0)|list, people|map(attribute='name')|map('lower')|list, [{'a': {'b': [7]}}]|map(attribute='a.b.0')|list
xs|select('odd')|list, xs|reject('odd')|list, xs|select('gt', 2)|list, [0, 1, '', 'a', none]|select|list, [0, 1, '']|reject|list, xs|select('divisibleby', 2)|list, xs|select('in', [2, 3])|list
people|selectattr('age')|map(attribute='name')|list, people|rejectattr('age')|list, people|selectattr('name', 'equalto', 'bob')|list, people|selectattr('age', 'defined')|list|length, people|rejectattr('age', 'undefined')|list|length
[3, 1, 3, 2]|unique|list, ['a', 'A', 'b']|unique|list, ['a', 'A']|unique(case_sensitive=true)|list, people|unique(attribute='name')|list|length
'abc'|reverse, xs|reverse|list, {'a': 1, 'b': 2}|dictsort, {'b': 1, 'A': 2}|dictsort, {'b': 1, 'A': 2}|dictsort(case_sensitive=true), {'a': 2, 'b': 1}|dictsort(by='value'), {'a': 2, 'b': 1}|dictsort(reverse=true)
-5|abs, (-5)|abs, -2.5|abs, 2.5|round, 3.5|round, 2.675|round(2), 2.4|round(method='ceil'), 2.6|round(0, 'floor'), 5|round, 1234.5|round(-2), 0.5|round, 1.25|round(1)
'42'|int, '4.9'|int, 'x'|int, 'x'|int(9), 4.9|int, -4.9|int, true|int, ' 7 '|int, '0x1f'|int(0, 16), 'ff'|int(base=16), '1_000'|int, none|int, []|int(3), '-3'|int
'4.5'|float, 'x'|float, 'x'|float(1.5), 3|float, '1e3'|float, 'inf'|float, none|float, '.5'|float, '5.'|float, '-inf'|float
[1, 2, 3]|sum, [1.5, 2]|sum, []|sum, people[:2]|sum(attribute='age'), [1, 2]|sum(start=10), [3, 1]|min, [3, 1]|max, ['b', 'A']|min, []|max, words|max
'  x '|trim, 'xxaxx'|trim('x'), 'aBc'|upper, 'aBc'|lower, 'aBc dEf'|capitalize, 5|upper, 'a-b c'|title, 'abc'|replace('b', 'x'), 5|replace(5, 6), 'aaa'|replace('a', 'b', 2)
'a\nb\n\nc'|indent, 'a\nb\n\nc'|indent(2, true), 'a\nb\n\nc'|indent(2, false, true), 'a\nb'|indent('> '), 'a\nb\n'|indent(width=1, first=true), ''|indent(2, true)
5|string, none|string, [1]|string, 1.0|string, 'abc'|list, d|list, (1, 2)|list
'%s is %d years' % ('Ann', 30), '%s' % 5, '%5.2f|%-5s|%05d|%x|%%' % (2.5, 'a', 42, 255), '%s and %s'|format('a', 'b'), '%s' % [1], '%.2s' % 'abc', '%+d' % 3
d|tojson, xs|tojson, 'é"\\\n\t\u0001\u007f</script>'|tojson, 1.0|tojson, none|tojson, true|tojson, 1e5|tojson, 1e-7|tojson, 1e16|tojson, (1, 2)|tojson
d|tojson(indent=2), []|tojson(indent=2), {}|tojson(indent=2), {'a': [], 'b': {}}|tojson(indent=4), [1, [2, {'c': 3}]]|tojson(indent=1), xs|tojson(indent=0), xs|tojson(indent='--')
{'b': 1, 'a': 2}|tojson(sort_keys=true), {'a': [1, 2]}|tojson(separators=(',', ':')), 'é🙂'|tojson(ensure_ascii=true), 'é'|tojson(ensure_ascii=false), {1: 2, none: 3, true: 4, 2.5: 5}|tojson, {'a': 1}|tojson(indent=2, separators=(',', ' : '))
range(3), range(1, 10, 3)|list, range(5, 0, -2)|list, range(0)|list, range(10)[2:5]|list, range(10)[-1], range(3)|length, range(1, 7, 2), range(10)[::-3]|list, range(0, 3) == range(3)
dict(a=1, b=2), dict({'x': 1}, y=2), dict([('a', 1)]), namespace(a=1).a, dict(), dict(**{'z': 1})
(1, 2) + (3,), [1] + [2], () == [], (1) == 1, (1,)|length, 1_000, 0x1F, 0b101, 0o17, 1.5e3, 1E3
[[1, 2], [3]]|map('first')|list, [1, 2]|map('float')|list, [[3, 1], [2]]|map('sort')|list, ['a']|map('tojson')|list, xs|batchless|default('x')
'a' is string and 'b' in 'abc' or false, 1 + 1 is number, 'abc'|length == 3, -1|abs, not 'x' in 'abc', 1 - 1 is number
{'a': 1}.a, {'a': {'b': 2}}['a'].b, [{'k': 'v'}][0].k, 'abc'.upper().lower().title(), ('a' ~ 'b').upper(), [1, 2][0] + 1
none == none, none == false, none != 0, [] == [], {} == {}, {'a': 1, 'b': 2} == {'b': 2, 'a': 1}, [1, 2] == (1, 2), 'a' == 'a'
strftime_now('%Y')|length, strftime_now('%d %b') == strftime_now('%d %b'), strftime_now('')
1 is in [1] and 2 is not in [1], 'x' if d.nope is not defined else 'y', 'x' if d.b is defined and d.b == 1 else 'y'
d.copy() == d, [1].copy(), (d)['b'], d.items()|map('first')|list, d.items()|map('last')|list|length, d.items()|list|first|first
"a" < "B", "é" > "z", [1, 'a'] == [1, 'a'], 1.0 in [1], true in [1], 'ab' 'cd'|length, 2 == 2.0 == true + 1
"{" ~ '}' ~ "%}" ~ '{{' ~ "}}", '{#', '#}', {'a}}': 1}['a}}'], "{%- x -%}"
loop is defined, self is defined or true, caller is defined, varargs is defined
3|string ~ 'x', 3|string|length, (3|string)[0], [3|string], 1 + 2|abs * 3, -3 ** 2, (-3) ** 2, - 3 | abs
'x'.__class__ is defined or true
"x"|attr("upper") is callable, d|attr("nope") is defined, d|attr("b") is defined, 'abc'|center(7), 'abc'|list|sort(reverse=true)|join
words|map('lower')|sort|join(' '), xs|map('float')|map('string')|join(' '), people[:2]|selectattr('age', 'gt', 10)|map(attribute='name')|first
"ab\
cd", 'tab	raw', "\101\60", "a\'b"
"""

FAILING = r"""
missing.x
missing[0]
missing + 1
missing()
1 + 'a'
'a' + 1
'a' + missing
none + 1
[1] + (1,)
1 / 0
1 // 0
1 % 0
1.0 / 0
none|length
5|length
1 < 'a'
none < 1
{} < {}
1 in 5
1 in 'abc'
5()
'x'()
d.b()
xs.append(5)
d.update({'a': 1})
d.popitem()
'abc'.nope()
'a'.split('')
','.join([1])
'abc'.index('z')
[1].index(5)
{[1]: 2}
{}|tojson(nope=1)
missing|tojson
range(3)|tojson
d.items()|tojson
raise_exception('plain words')
raise_exception('é ' ~ 5)
5|nosuchfilter
5 is nosuchtest
-'a'
-none
[3, 'a']|sort
[1, none]|min
5|items|list
'x'|dictsort
5|list
5|join
none|first
xs|map|list
xs|map('nope')|list
xs|select('nope')|list
s[none:'x']
xs['a':]
d[1:2]
n[0:1]
xs[::0]
'%d' % 'x'
'%s %s' % 'x'
'%s' % (1, 2)
range()
range(1, 2, 0)
range(1.5)
dict(1)
namespace(1)
'a'.replace('a')
'a'.upper(1)
'a'|upper(1)
'a'|trim(1, 2)
'a' * 1.5
'a' * 'b'
2 ** 'a'
xs|selectattr|list
missing|int
missing|float
missing|abs
'x'|abs
'x'|round
[{}]|unique|list
missing < 1
loop.index
'a'.center('x')
'inf'|float|int
(1, 2)|tojson|nope
none.x.y
xs|random(1)
"""

TEMPLATES = [
    # white space control
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "  {% if true %}  \n  x\n  {%- endif +%}\n y", "a  {{- 1 -}}  b\n{{ 2 -}}\n\n c",
    "{% if true %}\n\n{% endif %}|", "x {% if 1 %} y {% endif %} z", "x {%- if 1 -%} y {%- endif -%} z", "\n\n{% set a = 1 %}\n\n{{ a }}\n\n",
    "{# c #}\nx{# multi\nline #}\n  {# indented #}\ny{#- tight -#} z {#+ plus +#}\n w", "a\n    {%+ if true %}b{% endif %}\n", "  {{ 1 }}\n  {{- 2 }}\n",
    "{% for x in xs %}\n  {{ x }}\n{% endfor %}\n", "{%- for x in xs -%}\n  {{ x }},\n{%- endfor -%}\n", "a\r\nb{% if 1 %}\r\nc{% endif %}\rd\n",
    "{% raw %}{{ x }} {% y %} {# z #}{% endraw %}!", " {%- raw -%}  {{ a }}  {%- endraw -%} x", "x\n  {% raw %}\n {{ }} \n  {% endraw %}\n y", "no tags at all\n\n",
    "{{'a'}}{{ 'b' }}{{\n'c'\n}}", "a {% if true -%}   \n\n b {%- endif %} c", "\t{% if true %}tab\t{% endif %}\n", "{{ '{{' }}{{ '}}' }}", "{ { } } {{ 1 }} % } {",
    "", "\n", "\n\n", "{# only #}", "{{ 1 }}\n", "{{ 1 }}\n\n", "{% set x %}\n  a\n{% endset %}[{{ x }}]", "{%- set x = 1 -%}\n\n{%- set y = 2 %}\n{{ x + y }}",
    """{{ '<a href="x">\\'&'|e }}""", "{{ '<b>'|escape }}{{ '<b>'|safe }}{{ 5|e }}",
    # set
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = (1, 2) %}{{ a }}", "{% set a = 1, 2 %}{{ a }}", "{% set (a, b) = [3, 4] %}{{ a + b }}",
    "{% set x %}hello {{ n }}{% endset %}{{ x|upper }}", "{% set x | upper | trim %} hi {% endset %}[{{ x }}]", "{% set ns = namespace(a=1, b=[]) %}{% set ns.a = ns.a + 1 %}{% set ns.b = ns.b + [n] %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% set ns = namespace() %}{% for x in xs %}{% set ns.last = x %}{% endfor %}{{ ns.last }}", "{% set x = 1 %}{% for y in xs %}{% set x = x + y %}{{ x }} {% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% set ns = namespace(x=1) %}{{ ns }}", "{% if false %}{% set q = 1 %}{% endif %}{{ q is defined }}", "{% set ns = namespace({'a': 4}, b=5) %}{{ ns.a + ns.b }}{{ ns['a'] }}",
    "{% set ns = namespace(x=0) %}{% set ns.x %}block{{ n }}{% endset %}{{ ns.x }}", "{% set (a, (b, c)) = (1, (2, 3)) %}{{ a }}{{ b }}{{ c }}",
    # for
    "{% for x in xs %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }} {% endfor %}", "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for x in [] %}a{% else %}empty{% endfor %}",
    "{% for x in xs if x > 2 %}{{ loop.index }}:{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for x in xs if x > 9 %}a{% else %}none{% endfor %}", "{% for x in xs %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}!",
    "{% for x in xs %}{% if x is odd %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in xs %}{% for y in xs %}{% if y > x %}{% break %}{% endif %}{{ loop.index }}{% endfor %};{{ loop.index }} {% endfor %}", "{% for c in 'héy' %}[{{ c }}]{% endfor %}",
    "{% for x in range(3) %}{{ x }}{% endfor %}{% for x in missing %}x{% else %}-{% endfor %}", "{% for x in xs[::-1] %}{{ loop.index0 }}{{ x }} {% endfor %}", "{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x // 2) }} {% endfor %}", "{% for x in xs|reverse %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% set ns = namespace(done=false) %}{% for x in xs if not ns.done %}{{ x }}{% if x == 2 %}{% set ns.done = true %}{% endif %}{% endfor %}", "{% for x in xs %}{% set loop_x = loop.index %}{{ loop_x }}{% endfor %}{{ loop_x is defined }}", "{% for x in xs %}{{ x }}{% endfor %}{{ x is defined }}",
    "{% for m in messages %}{% if loop.first %}F{% elif loop.last %}L{% else %}M{% endif %}{{ m.role }}{% endfor %}", "{% for x in xs %}{{ loop.depth }}{{ loop.depth0 }}{{ loop|length }}{% endfor %}", "{% for x in [1] %}{% endfor %}|{% for x in [1] %}{% break %}{% else %}e{% endfor %}",
    "{% set g = xs|map('string') %}{{ g|join }}{{ g|join }}|", "{% set g = xs|select('odd') %}{{ g|first }}{{ g|list }}{{ g|list }}",
    # if
    "{% if n > 3 %}big{% elif n > 1 %}mid{% else %}small{% endif %}", "{% if missing %}a{% elif missing is defined %}b{% elif n %}c{% endif %}", "{% if n and not missing and (s or d) %}yes{% endif %}", "{% if [] %}a{% endif %}{% if {} %}b{% endif %}{% if '' %}c{% endif %}{% if 0.0 %}d{% endif %}{% if [0] %}e{% endif %}",
    "{% if xs[0] == 1 and messages[0]['role'] == 'system' %}{{ messages[0].content }}{% endif %}", "{% if 1 %}{% if 0 %}a{% else %}b{% endif %}{% else %}c{% endif %}", "{% if range(0) %}a{% endif %}{% if range(1) %}b{% endif %}{% if d.items() %}c{% endif %}",
    # macros, calls and blocks
    "{% macro hi(name, greeting='Hello') %}{{ greeting }} {{ name }}!{% endmacro %}{{ hi('Bo') }}{{ hi('Bo', 'Yo') }}{{ hi(greeting='Hey', name='Al') }}{{ hi() }}", "{% macro f(a, b=a ~ 'x') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}", "{% macro fact(n) %}{{ 1 if n < 2 else n * (fact(n - 1)|int) }}{% endmacro %}{{ fact(5) }}",
    "{% macro all() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ all(1, 2, a=3) }}", "{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}inner {{ n }}{% endcall %}", "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(x, i) each(words) %}{{ i }}={{ x }}{% endcall %}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}",
    "{% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner is defined }}", "{% macro a() %}<{{ b() }}>{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}", "{{ m is defined }}{% macro m(x) %}{{ x }}{% endmacro %}{{ m is callable }}{{ m(1)|length }}{{ m.name }}", "{% macro m(x) %}  {{- x -}}  {% endmacro %}[{{ m('q') }}]", "{% macro m(*a) %}{% endmacro %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}", "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'x') | upper %}banana{% endfilter %}", "{% print 1 + 1 %}{% print 'a', 'b' %}",
    "{% generation %}\nassistant {{ n }}\n{% endgeneration %}\nx", "{% for x in xs %}{% generation %}{{ loop.index }}{% set q = x %}{{ q }}{% endgeneration %}{{ q is defined }}{% endfor %}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, *[2]) }}{{ m(1, **{'b': 5}) }}",
    "{% macro outer() %}{% macro inner(x) %}({{ x }}{{ y }}){% endmacro %}{% set y = 7 %}{{ inner(1) }}{% endmacro %}{{ outer() }}", "{% macro m(x) %}{% for i in x %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}{% endmacro %}{{ m(xs) }}",
    "{% set f = 'abc'.upper %}{{ f() }}{% set g = d.get %}{{ g('b') }}{% set r = range %}{{ r(2)|list }}", "{% macro m(x=none) %}{{ x is none }}{{ x|default('u') }}{% endmacro %}{{ m() }}{{ m(1) }}{{ m(missing) }}",
    # mistakes
    "{{", "{% if %}", "{% if 1 %}", "{% endif %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{% for x %}{% endfor %}", "{% unknown %}", "{{ 'abc }}", "{# open", "{% raw %}x", "{{ a b }}", "{% set 1 = 2 %}", "{% set true = 2 %}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{{ x is is y }}", "{{ [1, 2 }}", "{{ {'a' 1} }}", "{% for x in xs %}{% else %}{% else %}{% endfor %}", "{{ x. }}", "{{ x| }}", "{{ $ }}", "{{ }}", "{% set x = %}", "{% set n.x = 1 %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% set a, b = 1 %}", "{% macro m(x) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(x) %}{% endmacro %}{{ m(y=1) }}", "{% macro m(x) %}{% endmacro %}{{ m(1, x=1) }}", "{% break %}", "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", "{% call 5 %}{% endcall %}", "{% if 1 %}{% endfor %}", "{{ 1 if }}", "{{ not }}", "{{ 0777 }}", "{{ 'a' is string is string }}",
    "{% if messages[0].role != 'user' %}{{ raise_exception('First must be user, not ' ~ messages[0].role) }}{% endif %}",
]

# Templates in the styles of several model families.
TEMPLATES += [
    # ChatML
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    """{%- if messages[0].role == 'system' -%}
    {{- '<|im_start|>system\n' ~ messages[0].content|trim ~ '<|im_end|>\n' -}}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for m in rest %}
    {%- if m.role in ['user', 'assistant'] %}
        {{- '<|im_start|>' ~ m.role ~ '\n' ~ m.content }}
        {%- for call in m.tool_calls or [] %}
            {{- '\n<tool_call>\n' ~ call.function|tojson ~ '\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif m.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>' ~ m.content ~ '</tool_response><|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
""",
    # header and end-of-turn markers
    """{{- bos_token }}
{%- if tools is not defined %}{% set tools = none %}{% endif %}
{%- if not date_string is defined %}
    {%- set date_string = '26 Jul 2024' %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\n' }}
{%- if tools is not none %}
    {{- 'Environment: ipython\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- '\n\n' }}
    {%- endfor %}
{%- endif %}
{{- 'Today: ' + date_string + '\n\n' + system + '<|eot_id|>' }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception('one call at a time') }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\n\n' }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- endif %}
        {{- '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
""",
    # instruction brackets, alternation check
    """{{ bos_token }}{% set ns = namespace(turn=0, system='') %}
{%- for message in messages %}
    {%- if message.role == 'system' %}{% set ns.system = message.content %}{% continue %}{% endif %}
    {%- if message.role in ('user', 'tool') and ns.turn % 2 != 0 %}{{ raise_exception('roles must alternate at ' ~ loop.index0) }}{% endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' ~ (ns.system ~ '\n\n' if loop.last and ns.system else '') ~ message.content ~ '[/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' ~ message.content|trim ~ eos_token }}
    {%- endif %}
    {%- set ns.turn = ns.turn + 1 %}
{%- endfor %}
""",
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{{ message.content }}{% endfor %}",
    # turns with renamed roles and a macro
    """{{ bos_token }}
{%- macro turn(role, text) -%}
<start_of_turn>{{ role }}
{{ text | trim }}<end_of_turn>
{% endmacro -%}
{%- for m in messages if m.role != 'tool' -%}
{{ turn('model' if m.role == 'assistant' else m.role, m.content) }}
{%- endfor -%}
{% if add_generation_prompt %}<start_of_turn>model
{% endif %}""",
    # schema printing with a recursive macro
    """{%- macro show(spec, depth=0) -%}
    {%- if spec.type == 'object' -%}
        {{- '{\n' }}
        {%- for name, sub in spec.properties | dictsort -%}
            {{- '  ' * (depth + 1) ~ name ~ ': ' ~ show(sub, depth + 1) ~ (',' if not loop.last) ~ '\n' }}
        {%- endfor -%}
        {{- '  ' * depth ~ '}' }}
    {%- elif spec.enum is defined -%}
        {{- spec.enum | map('tojson') | join(' | ') }}
    {%- else -%}
        {{- {'integer': 'number', 'string': 'string'}[spec.type] | default('any') }}
    {%- endif -%}
{%- endmacro -%}
{% for t in tools %}{{ t.function.name }}({{ show(t.function.parameters) }})
{% endfor %}""",
    # reasoning split off, last user turn found backwards
    """{%- set ns = namespace(last=messages|length - 1, open=true) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and m.role == 'user' and m.content is string and not (m.content.startswith('<r>') and m.content.endswith('</r>')) %}
        {%- set ns.open = false %}{% set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set content = m.content.split('</think>')[-1].lstrip('\n') if '</think>' in m.content else m.content %}
    {{- '<|' + m.role + '|>' + content + ('!' if loop.index0 > ns.last else '') + '\n' }}
{%- endfor %}
""",
]


def cases():
    for line in EXPRESSIONS.replace("\\\ncd", "\0").strip().splitlines():
        line = line.replace("\0", "\\\ncd")
        yield "{{ " + line + " }}", {}
        for part in split_commas(line):
            yield "{{ " + part + " }}", {}
    for line in FAILING.strip().splitlines():
        yield "{{ " + line + " }}", {}
    for template in TEMPLATES:
        yield template, {}


def split_commas(line):
    """The parts of a tuple expression."""
    parts, depth, quote, start, skip = [], 0, "", 0, False
    for i, c in enumerate(line):
        if skip:
            skip = False
        elif quote:
            skip = c == "\\"
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(line[start:i].strip())
            start = i + 1
    if start:
        parts.append(line[start:].strip())
    return [p for p in parts if p]
