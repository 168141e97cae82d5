#!/usr/bin/env python3
"""Compiles every header alone.  usage: check_headers.py COMPILER [ROOT] [-j N]"""
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys

ROOMS = ["base", "kernels", "metrics", "model", "engine", "actors", "http", "cli"]


def alone(compiler, root, header):
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{root}", "-x", "c++"]
    command = shlex.split(compiler) + flags + ["-include", str(header), "/dev/null"]
    return header, subprocess.run(command, capture_output=True, text=True)


def main():
    compiler = sys.argv[1]
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve()
    headers = [h for room in ROOMS for h in sorted((root / room).rglob("*.*h*"))
               if h.suffix in {".hpp", ".cuh"}]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, result in pool.map(lambda h: alone(compiler, root, h), headers):
            if result.returncode:
                failed += 1
                print(f"{header.relative_to(root)} does not compile alone:\n{result.stderr}")
    print(f"{len(headers)} headers, {failed} failed")
    sys.exit(1 if failed or not headers else 0)


if __name__ == "__main__":
    main()
