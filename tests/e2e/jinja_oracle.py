# SPDX-License-Identifier: Apache-2.0
"""Compares the template interpreter with python3-jinja2, set up the way chat templates are run.

Usage: jinja_oracle.py PATH_OF_jinja_render [--seed N] [--random N]
"""
import argparse
import copy
import datetime
import json
import pathlib
import subprocess
import sys
import warnings

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("python3-jinja2 is not installed")
    sys.exit(77)

import jinja_cases
import jinja_random

warnings.filterwarnings("ignore")


class Generation(jinja2.ext.Extension):
    """The tag around an assistant's words; it only opens a scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def make_environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


def expected(env, template, context):
    try:
        return {"output": env.from_string(template).render(**copy.deepcopy(context))}
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error), "raised": type(error) is jinja2.exceptions.TemplateError}
    except Exception as error:  # what Python itself says about types and values
        return {"error": f"{type(error).__name__}: {error}", "raised": False}


def differs(want, got, lenient):
    """Why two results differ, or None. Random cases may meet what is documented as unsupported."""
    if "error" in want:
        if "error" not in got:
            return "should fail"
        return "other message" if want["raised"] and want["error"] != got["error"] else None
    if "error" in got:
        excused = ("supported", "64 bits", "has no useful text", "nested too deeply", "templates may not",
                   "cannot be sliced")  # the reference folds constants, whose slices are undefined
        return None if lenient and any(word in got["error"] for word in excused) else "should not fail"
    if want["output"] != got["output"]:
        return "other output"
    if sum(n for n, _ in got["segments"]) != len(got["output"].encode()):
        return "segments do not add up"
    return None


def random_templates(env, seed, count):
    """Mostly templates that render: of those that fail, one in ten is kept."""
    generator = jinja_random.Generator(seed)
    kept, failed = [], 0
    while len(kept) < count:
        template = generator.template()
        if "error" in expected(env, template, jinja_cases.CONTEXT):
            failed += 1
            if failed % 10:
                continue
        kept.append(template)
    return kept


def demo_cases():
    """The demo template with the golden conversations, in both thinking forms."""
    root = pathlib.Path(__file__).resolve().parents[2]
    template = (root / "model/demo/chat_template.jinja").read_text(encoding="utf-8")
    golden = json.loads((root / "tests/fixtures/chat/golden.json").read_text(encoding="utf-8"))
    for case in [*golden["cases"].values(), *golden["errors"].values()]:
        for form in ({}, {"thinking_default": True}):
            yield template, {**case["input"], **form}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", type=int, default=1500)
    options = parser.parse_args()

    env = make_environment()
    cases = [(t, {**jinja_cases.CONTEXT, **c}, False) for t, c in jinja_cases.cases()]
    cases += [(t, c, False) for t, c in demo_cases()]
    written = len(cases)
    cases += [(t, jinja_cases.CONTEXT, True) for t in random_templates(env, options.seed, options.random)]
    lines = "".join(json.dumps({"template": t, "context": c}) + "\n" for t, c, _ in cases)
    run = subprocess.run([options.driver], input=lines.encode(), stdout=subprocess.PIPE, timeout=300, check=True)
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == len(cases), f"{len(results)} answers to {len(cases)} templates"

    failures = 0
    errors = 0
    for (template, context, lenient), got in zip(cases, results):
        want = expected(env, template, context)
        errors += "error" in want
        why = differs(want, got, lenient)
        if why:
            failures += 1
            if failures <= 40:
                print(f"--- {why}\ntemplate: {template!r}\n  wanted: {want}\n     got: {got}")
    print(f"{written} written and {len(cases) - written} random templates, {errors} of them fail as they should, "
          f"{failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
