#!/usr/bin/env bash
# usage: dry_run.sh GPU_CHECK FOLDER.  The whole of gpu_check with the harness for a device.
set -euo pipefail
program=$1
cd "$2"

fail() {
  echo "failed: $*"
  exit 1
}

"$program" --seconds 100 --json dry.json | tee dry.log
grep -q ' 0 failed' dry.log || fail "a part failed"
python3 - dry.json <<'PYTHON'
import json
import sys

run = json.load(open(sys.argv[1]))
assert run["dry_run"] is True
rows = run["rows"]
names = {(row["part"], row["name"]) for row in rows}
for wanted in [("device", "device"), ("rows of our GEMM", "head, bf16"), ("bandwidth", "read bandwidth"),
               ("matrix rate", "matrix rate"), ("graphs and launches", "a node of a graph"),
               ("tests: gemm", "gemm"), ("tests: attention", "attention"), ("exactness", "bf16"),
               ("kernels", "gemm head, 1 row"), ("kernels", "swiglu, 1 row"), ("speed", "prefill 24"),
               ("speed", "decode 2, graphs"), ("speed", "decode 2, no graphs"),
               ("speed", "first token, cached on the host"), ("exactness of int8", "int8")]:
    assert wanted in names, f"no row {wanted}"
assert not any("no time left" in row.get("note", "") for row in rows), "a part had no time"
assert all(row["value"] >= 0 for row in rows if "unit" in row), "a value is no number"
PYTHON

# Parts that have no time are skipped, and say so.
"$program" --seconds 1.1 --json short.json >short.log || fail "parts without time are no failure"
grep -q 'no time left' short.log || fail "a part without time does not say so"
