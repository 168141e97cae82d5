#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants one bug after another in the CUDA kernels and demands that the kernel's own test fails.

planted.json names them: a text that stands exactly once in a file, what replaces it, and the test file that has to
notice. `--check` only looks whether the texts are still there (seconds); without it every bug is built and run in a copy
of the sources (half a minute each). Exit code 1 when a bug is not found.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent


def stale(bugs):
    """What of planted.json no longer fits the sources."""
    found = []
    for bug in bugs:
        count = (ROOT / bug["file"]).read_text().count(bug["old"])
        if count != 1:
            found.append(f"{bug['file']}: expected once, found {count} times: {bug['old']}")
        if not (ROOT / "tests/simt" / (bug["test"] + ".cpp")).exists():
            found.append(f"tests/simt/{bug['test']}.cpp: no such test file")
    return found


def copy_sources(work):
    source = work / "source"
    shutil.rmtree(source, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)  # as of now: what was built may hold a bug
    return source


def build(source, out, log):
    if not (out / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release", "-B", str(out), "-DCAIRN_CUDA=OFF"], cwd=source, check=True,
                       stdout=log, stderr=log)
    subprocess.run(["cmake", "--build", str(out), "--target", "test_simt"], check=True, stdout=log, stderr=log)


def fails(out, test, log):
    run = subprocess.run([str(out / "tests/test_simt"), "-#", f"[#{test}]"], stdout=log, stderr=log, timeout=600)
    return run.returncode != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only whether planted.json still fits the sources")
    parser.add_argument("--only", metavar="KERNEL", help="bugs of one kernel")
    arguments = parser.parse_args()
    bugs = json.loads((HERE / "planted.json").read_text())
    bugs = [bug for bug in bugs if arguments.only in (None, bug["kernel"])]
    problems = stale(bugs)
    if problems or not bugs:
        sys.exit("\n".join(problems) or f"no bug is planted in '{arguments.only}'")
    if arguments.check:
        print(f"{len(bugs)} bugs fit the sources")
        return
    work = ROOT / "build/mutations"
    work.mkdir(parents=True, exist_ok=True)
    source = copy_sources(work)
    missed = 0
    with open(work / "log", "w") as log:
        build(source, work / "out", log)
        for test in sorted({bug["test"] for bug in bugs}):
            if fails(work / "out", test, log):
                sys.exit(f"{test} fails without any planted bug; see build/mutations/log")
        for number, bug in enumerate(bugs, 1):
            file = source / bug["file"]
            right = file.read_text()
            file.write_text(right.replace(bug["old"], bug["new"]))
            build(source, work / "out", log)
            found = fails(work / "out", bug["test"], log)
            file.write_text(right)
            missed += not found
            print(f"{number:2} of {len(bugs)}  {'found ' if found else 'MISSED'}  {bug['kernel']}: {bug['new']}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
