# SPDX-License-Identifier: Apache-2.0
"""Random expression templates, the same ones for the same seed."""
import random

NUMBERS = ["0", "1", "2", "3", "7", "-1", "-4", "2.5", "0.1", "1e3", "10", "n", "f", "true", "big"]
STRINGS = ["'abc'", "'a b  c'", "' x '", "''", "'Hello World'", "'1,2,3'", "s", "u", "text", "'42'", "'3.7'", "'É\u00df'"]
LISTS = ["[]", "[1, 2, 3]", "['b', 'a', 'C']", "[3, 1, 2]", "xs", "words", "(1, 'x')", "range(4)", "people", "[[1, 2], [3]]",
         "[none, true]", "[1.5, 2]"]
DICTS = ["{}", "{'a': 1, 'b': 'x'}", "d", "{'k': [1, {'z': none}]}", "people[0]"]
OTHERS = ["none", "missing", "true", "false", "loop"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float",
         "boolean", "true", "false", "odd", "even", "lower", "upper", "eq(1)", "equalto('abc')", "in([1, 'abc'])",
         "divisibleby(2)", "gt(1)", "ne(2)", "callable", "lt(3)", "ge(2)"]
FILTERS = ["length", "upper", "lower", "title", "capitalize", "trim", "first", "last", "list", "string", "int", "float",
           "reverse", "sort", "unique|list", "abs", "round", "tojson", "join", "join('-')", "default('dflt')", "d(1, true)",
           "replace('a', 'bb')", "items|list", "dictsort", "map('upper')|list", "map(attribute='name')|list", "select|list", "reject|list",
           "select('odd')|list", "selectattr('age')|list", "rejectattr('age', 'gt', 20)|list", "tojson(indent=2)", "indent(2)", "sum",
           "min", "max", "count", "round(1)", "trim('a')", "sort(reverse=true)", "tojson(sort_keys=true)",
           "tojson(ensure_ascii=true)", "join(',', attribute='name')", "sort(attribute='age')", "indent(1, true)",
           "reverse|list", "map('string')|list", "select('string')|list", "map('int')|join",
           "dictsort(by='value')", "default(none)", "string|length", "list|length", "replace('', '.')", "round(1, 'floor')",
           "int(7)", "float(0.5)", "tojson(separators=(',', ':'))", "center(9)", "attr('name')"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "split()", "split(',')", "split(' ', 1)", "rsplit(' ', 1)",
           "splitlines()", "startswith('a')", "endswith('c')", "replace('b', 'x')", "upper()", "lower()", "title()",
           "capitalize()", "join(['x', 'y'])", "find('b')", "count('l')", "items()", "keys()", "values()", "get('a')",
           "get('q', 5)", "index(1)", "count(1)", "items()|list", "keys()|list", "values()|join('+')", "rfind('l')",
           "partition(' ')", "removeprefix('a')", "isdigit()", "isalpha()", "split('')", "splitlines(true)", "append(1)",
           "pop()", "isspace()", "ljust(6, '.')", "rjust(6)", "startswith(('a', 'H'))", "find('l', 3)", "strip(none)"]
ATTRIBUTES = [".name", ".age", "['a']", "[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[1:3]", "[::2]", "[-2:]", "[5]", ".x", ".0",
              "[none]", "[3:0:-2]", "['name']"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]


class Generator:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def atom(self):
        pool = self.rng.choices([NUMBERS, STRINGS, LISTS, DICTS, OTHERS], [4, 5, 4, 2, 1])[0]
        return self.rng.choice(pool)

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        pick = self.rng.random
        kind = self.rng.choices(["atom", "binary", "filter", "method", "attribute", "test", "not", "if", "negate", "list",
                                 "chain", "slice", "dict"], [2, 6, 7, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1])[0]
        sub = lambda: self.expression(depth - 1 - int(pick() * 2))
        paren = lambda e: f"({e})"
        if kind == "binary":
            left, op, right = paren(sub()), self.rng.choice(BINARY), paren(sub())
            if op == "**":
                right = self.rng.choice(["2", "0", "3", "-1", "0.5"])
            if op == "*" and self.rng.random() < 0.7:
                right = self.rng.choice(["2", "3", "0", "-1"])
            return f"{left} {op} {right}"
        if kind == "filter":
            return f"{paren(sub())}|{self.rng.choice(FILTERS)}"
        if kind == "method":
            return f"{paren(sub())}.{self.rng.choice(METHODS)}"
        if kind == "attribute":
            return f"{paren(sub())}{self.rng.choice(ATTRIBUTES)}"
        if kind == "test":
            return f"{paren(sub())} is {'not ' if pick() < 0.3 else ''}{self.rng.choice(TESTS)}"
        if kind == "not":
            return f"not {paren(sub())}"
        if kind == "if":
            return f"{paren(sub())} if {paren(sub())} else {paren(sub())}" if pick() < 0.8 else f"{paren(sub())} if {paren(sub())}"
        if kind == "negate":
            return f"-{paren(sub())}"
        if kind == "list":
            return f"[{sub()}, {sub()}]"
        if kind == "chain":
            return f"{paren(sub())} < {paren(sub())} <= {paren(sub())}"
        if kind == "slice":
            bound = lambda: self.rng.choice(["", "0", "1", "-1", "2", "-3", "9", "-9"])
            return f"{paren(sub())}[{bound()}:{bound()}:{self.rng.choice(['', '1', '-1', '2', '-2', '3'])}]"
        if kind == "dict":
            return "{'k': " + sub() + "}"
        return self.atom()

    def template(self):
        e = lambda d=3: self.expression(d)
        kind = self.rng.choices(["print", "for", "if", "set", "macro", "space"], [8, 2, 1, 1, 1, 1])[0]
        if kind == "for":
            return "{% for x in " + e() + " %}[{{ loop.index }}{{ x }}{{ ',' if not loop.last }}]{% else %}none{% endfor %}"
        if kind == "if":
            return "{% if " + e() + " %}\n yes {{ " + e(1) + " }}\n{% elif " + e(1) + " %}\n maybe\n{% else %}\n no\n{% endif %}\n"
        if kind == "set":
            return "{% set v = " + e() + " %}{{ v }}|{{ v is defined }}|{{ v|string|length }}"
        if kind == "macro":
            return "{% macro m(x, y=" + e(1) + ") %}<{{ x }}:{{ y }}>{% endmacro %}{{ m(" + e(2) + ") }}{{ m(y=1, x=" + e(1) + ") }}"
        if kind == "space":
            dash = lambda: self.rng.choice(["", "-", "+"])
            gap = lambda: self.rng.choice(["", " ", "\n", "  \n\n  ", "\t"])
            return "".join(f"a{gap()}{{%{dash()} if {self.atom()} {self.rng.choice(['', '-'])}%}}{gap()}b{gap()}"
                           f"{{{{{self.rng.choice(['', '-'])} {self.atom()} {self.rng.choice(['', '-'])}}}}}{gap()}"
                           f"{{#{dash()} c {dash()}#}}{gap()}{{%{dash()} endif {dash()}%}}{gap()}" for _ in range(2))
        return "{{ " + e(4) + " }}"
