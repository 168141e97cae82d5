#!/usr/bin/env python3
"""Fails on an include against the arrows, and on third parties outside the rooms that may see them.

usage: check_includes.py [ROOT]
"""
import pathlib
import re
import sys

# What each room may include of the others (itself always).
ARROWS = {
    "base": set(),
    "kernels": {"base"},
    "metrics": {"base"},
    "model": {"base", "kernels"},
    "engine": {"base", "kernels", "model"},
    "actors": {"base", "kernels", "model", "engine", "metrics"},
    "http": {"base", "engine", "metrics"},
    "cli": {"base", "kernels", "model", "engine", "actors", "http", "metrics"},
    "bench": {"base", "kernels", "model", "engine", "actors", "http", "metrics"},
    "examples": {"base", "engine"},
}
# The only headers of engine/ that the rooms above the public API may see.
PUBLIC_ENGINE = re.compile(r"engine/engine\.hpp|engine/request/openai_\w+\.hpp")
PUBLIC_ONLY = {"http", "examples"}
# Third party -> (folders whose .cpp files may include it).
THIRD_PARTIES = {
    r"caf/": ("actors",),
    r"boost/(beast|asio)": ("http",),
    r"boost/json": ("model/text", "engine/request", "http", "cli"),
    r"prometheus/": ("metrics",),
    r"pcre2": ("model/text",),
    r"utf8proc": ("model/text",),
    r"xxhash|sqlite3|zstd": ("engine/cache",),
    r"CLI/|CLI11": ("cli",),
    r"spdlog/|fmt/": ("cli",),
    r"(immintrin|x86intrin|xmmintrin|pmmintrin)": ("kernels/cpu",),
    r"cuda|cublas": ("kernels/cuda",),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def read_includes(root):
    """{file: [(kind, target), ...]} of every source of the rooms."""
    found = {}
    for room in ARROWS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in {".cpp", ".hpp", ".cu", ".cuh", ".h"}:
                found[path.relative_to(root).as_posix()] = INCLUDE.findall(path.read_text())
    return found


def shows_third_party(name, includes, seen=()):
    """Whether a header brings a third party with it, through any header of ours."""
    for kind, target in includes.get(name, []):
        if kind == "<" and any(re.match(p, target) for p in THIRD_PARTIES):
            return True
        if kind == '"' and target not in seen and shows_third_party(target, includes, (*seen, name)):
            return True
    return False


def problems(root):
    includes = read_includes(root)
    for name, lines in includes.items():
        room = name.split("/")[0]
        for kind, target in lines:
            yield from (f"{name}: {p}" for p in judge(room, name, kind, target))
            # A room's own headers may share its third party; nothing that leaves the room may.
            if kind == '"' and target.split("/")[0] != room and shows_third_party(target, includes):
                yield f"{name}: includes {target}, which shows a third party outside its room"


def judge(room, name, kind, target):
    if kind == '"':
        top = target.split("/")[0]
        if top not in ARROWS and top != "tests":
            yield f'"{target}" is not spelled from the root'
        elif top == "tests" or (top != room and top not in ARROWS[room]):
            yield f"includes {target} against the arrows"
        elif top == "engine" and room in PUBLIC_ONLY and not PUBLIC_ENGINE.fullmatch(target):
            yield f"includes {target}, which is not part of the public API"
        if room == "model" and name.startswith("model/net/") and target.startswith("model/text/"):
            yield f"net/ includes {target}"
        return
    for pattern, folders in THIRD_PARTIES.items():
        if not re.match(pattern, target):
            continue
        if not any(name.startswith(f + "/") for f in folders):
            yield f"includes <{target}>, which belongs to {', '.join(folders)}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(problems(root))
    for line in found:
        print(line)
    print(f"{len(found)} includes against the rules")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
