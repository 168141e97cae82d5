#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cairn bench kernels, in its quick mode.  bench_kernels.sh CAIRN_BINARY WORK_DIR
set -euo pipefail
cairn=$1 work=$2/bench_kernels
fail() { echo "FAILED: $*" >&2; exit 1; }
mkdir -p "$work"

# refuses EXPECTED_TEXT FLAGS...: exit code not 0, one line on stderr that holds the text.
refuses() {
  local text=$1
  shift
  "$cairn" bench kernels "$@" >"$work/out" 2>"$work/err" && fail "bench kernels $* was accepted"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "bench kernels $* said more than a line: $(cat "$work/err")"
  grep -q '^cairn: ' "$work/err" || fail "bench kernels $* said: $(cat "$work/err")"
  grep -qF -- "$text" "$work/err" || fail "bench kernels $* did not name $text: $(cat "$work/err")"
}
refuses no-such-shape --shape no-such-shape
refuses no-such-isa --isa no-such-isa
refuses --kernels --kernels gemm,no_such_kernel
refuses --rows --rows 0
refuses --contexts --contexts 64,many
refuses --seconds --seconds -1

# Every kernel of the table at every number of rows, each beside the limit that binds it.
"$cairn" bench kernels --shape tiny --rows 1,20 --contexts 96 --threads 2 --quick --json >"$work/json"
python3 - "$work/json" <<'PYTHON' || fail "bench kernels --json"
import json, sys

r = json.load(open(sys.argv[1]))
limits = r["limits"]
assert r["threads"] == 2 and r["shape"] == "tiny", r
assert min(limits["fma_gflops"], limits["bf16_gflops"], limits["int8_gops"], limits["read_gbytes_per_s"]) > 0, limits
found = {}
for k in r["kernels"]:
    found.setdefault(k["kernel"], []).append(k)
    assert k["microseconds"] > 0 and k["bytes"] > 0 and k["calls_a_pass"] > 0, k
    peak = "fma_gflops"
    if k["kernel"] == "gemm":
        peak = "bf16_gflops" if k["shape"].startswith("bf16") else "int8_gops"
    elif k["kernel"] == "attention":
        peak = "bf16_gflops"
    compute = k["operations"] / (limits[peak] * 1e3)
    memory = k["bytes"] / (limits["read_gbytes_per_s"] * 1e3)
    assert k["bound"] == ("compute" if compute > memory else "memory"), k
    percent = 100 * max(compute, memory) / k["microseconds"]
    assert abs(k["percent_of_bound"] - percent) < 1e-6 * percent, (k, percent)
names = {"embed", "gemm", "round_rows", "quantise_rows", "rms_norm", "residual_add", "swiglu", "conv_silu", "gates", "l2_norm_qk",
         "gated_norm", "norm_rope", "kv_store", "sigmoid_gate", "delta_rule", "attention", "argmax", "weigh",
         "copy_state"}
assert set(found) == names, set(found) ^ names
for name in names - {"argmax", "weigh", "copy_state"}:
    assert {k["rows"] for k in found[name]} == {1, 20}, name
assert {k["shape"].split()[0] for k in found["gemm"]} == {"bf16", "int8", "int4"}, found["gemm"]
# gate and up: [192, 64], 2 * 192 * 64 operations a row.
gate = [k for k in found["gemm"] if k["shape"] == "int8 gate and up 192x64" and k["rows"] == 20]
assert len(gate) == 1 and gate[0]["operations"] == 2 * 192 * 64 * 20 and gate[0]["calls_a_pass"] == 4, gate
assert {k["context"] for k in found["attention"]} == {96}, found["attention"]
PYTHON
"$cairn" bench kernels --shape tiny --kernels delta_rule --rows 3 --threads 1 --isa portable --quick >"$work/table"
grep -q '^tiny, portable, 1 threads$' "$work/table" || fail "the table's head: $(cat "$work/table")"
[ "$(grep -c '^delta_rule ' "$work/table")" = 1 ] || fail "--kernels delta_rule --rows 3: $(cat "$work/table")"
[ "$(wc -l <"$work/table")" = 4 ] || fail "the table has other kernels: $(cat "$work/table")"
echo "passed: bench kernels"
