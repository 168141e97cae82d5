#!/usr/bin/env python3
"""Registers of each CUDA kernel on each architecture, as a Markdown table, from ptxas -v.

usage: kernel_registers.py [--nvcc NVCC] [FILE.cu...]     (by default all of kernels/cuda)
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

ARCHITECTURES = ["75", "80", "90"]
ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\d+)'")
USED = re.compile(r"Used (\d+) registers")


def report(nvcc, root, source):
    """The lines that ptxas prints for a file."""
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
    command = [nvcc, "-std=c++20", "--fmad=false", "-Xptxas", "-v", *targets, f"-I{root}", "-c", str(source),
               "-o", "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{source}: {result.stderr}")
    return result.stderr


def kernels(text):
    """{mangled name: {architecture: registers}}"""
    found = collections.defaultdict(dict)
    entry = None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
        elif (match := USED.search(line)) and entry:
            found[entry[0]][entry[1]] = int(match.group(1))
            entry = None
    return found


def readable(name):
    plain = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()
    inner = re.search(r"run_kernel<(.*)>\(", plain)
    return re.sub(r"(\w+::)+", "", inner.group(1) if inner else plain).replace(" >", ">").strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    print("| Kernel | " + " | ".join(f"sm_{a}" for a in ARCHITECTURES) + " |")
    print("| --- |" + " --- |" * len(ARCHITECTURES))
    for source in args.files or sorted((root / "kernels/cuda").glob("*.cu")):
        found = kernels(report(args.nvcc, root, source))
        rows = {readable(name): used for name, used in found.items() if "run_kernel" in name}
        for name, used in sorted(rows.items()):
            print(f"| `{name}` | " + " | ".join(str(used.get(a, "-")) for a in ARCHITECTURES) + " |")


if __name__ == "__main__":
    main()
