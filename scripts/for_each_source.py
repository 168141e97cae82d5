#!/usr/bin/env python3
"""Runs a checker over the project's sources with the flags of a compile database.

usage: for_each_source.py BUILD_DIR [--only ROOM...] [--changed ROOM...] -- CHECKER [ARGS...]

--only: these rooms in full; --changed: of these rooms the files that differ from the last release point
(the merge base with CAIRN_BASE, by default the previous commit). Without either: every source of the database.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def changed_files(root):
    base = os.environ.get("CAIRN_BASE", "HEAD~1")
    result = subprocess.run(["git", "diff", "--name-only", base], cwd=root, capture_output=True, text=True)
    return set(result.stdout.split())


def chosen(root, build, only, changed):
    entries = json.loads((build / "compile_commands.json").read_text())
    differing = changed_files(root) if changed else set()
    for entry in entries:
        path = pathlib.Path(entry["file"])
        if path.suffix != ".cpp" or root not in path.parents:
            continue
        name = path.relative_to(root).as_posix()
        room = name.split("/")[0]
        if (not only and not changed) or room in only or (room in changed and name in differing):
            yield name, entry


def command_for(checker, build, name, entry):
    if "clang-tidy" in checker[0]:
        return checker + ["-p", str(build), name]
    words = shlex.split(entry["command"])
    flags = [w for w in words[1:] if w.startswith(("-I", "-D", "-W", "-std", "-f", "-m"))]
    system = [w for pair in zip(words, words[1:]) if pair[0] == "-isystem" for w in pair]
    return checker + flags + system + [name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--changed", nargs="+", default=[])
    own, checker = sys.argv[1:], []
    if "--" in own:
        own, checker = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    root = pathlib.Path(__file__).resolve().parent.parent
    build = args.build.resolve()
    jobs = sorted({name: command_for(checker, build, name, e) for name, e in
                   chosen(root, build, args.only, args.changed)}.items())
    failed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda j: subprocess.run(j[1], cwd=root, capture_output=True, text=True), jobs)
        for (name, _), result in zip(jobs, runs):
            if result.returncode:
                failed.append(name)
                print(f"-- {name}\n{result.stdout}{result.stderr}", flush=True)
    print(f"{len(jobs)} files, {len(failed)} failed {' '.join(failed)}")
    # No file changed is fine; no file at all is a broken database.
    sys.exit(1 if failed or not (jobs or args.changed) else 0)


if __name__ == "__main__":
    main()
