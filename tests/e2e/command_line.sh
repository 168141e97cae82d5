#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The program's subcommands and what they say when something is wrong.  command_line.sh CAIRN_BINARY WORK_DIR
set -euo pipefail
cairn=$1 work=$2/cli
fail() { echo "FAILED: $*" >&2; exit 1; }
mkdir -p "$work"
echo '{}' >"$work/empty.json"

# refuses EXPECTED_TEXT ARGUMENTS...: exit code not 0, one line on stderr that begins with "cairn: " and holds the text.
refuses() {
  local text=$1 code=0
  shift
  "$cairn" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
  [ $code != 0 ] || fail "cairn $* was accepted"
  refused=$code
  [ "$(wc -l <"$work/err")" = 1 ] || fail "cairn $* said more than a line: $(cat "$work/err")"
  grep -q '^cairn: ' "$work/err" || fail "cairn $* said: $(cat "$work/err")"
  grep -qF -- "$text" "$work/err" || fail "cairn $* did not name $text: $(cat "$work/err")"
}

"$cairn" --version | grep -q '^cairn [0-9]' || fail "--version"
for command in "" serve run bench "bench model" "bench serve" model "model info" "model make" "model quantize" "model tokenize" plan "plan solve" cache "cache stat" "cache purge"; do
  # shellcheck disable=SC2086
  "$cairn" $command --help | grep -- --help >/dev/null || fail "$command --help"
done
refuses nonsense nonsense
refuses --nonsense serve --nonsense
refuses /nowhere run --model /nowhere --prompt x
refuses --prompt run --model demo --raw
refuses --raw run --model demo --prompt x --raw --system y
refuses --raw run --model demo --prompt x --raw --thinking
refuses /nowhere model info /nowhere
refuses /nowhere/x plan solve /nowhere/x
refuses "$work: cannot be read" plan solve "$work"
refuses lots serve --model demo --cache-bytes lots
refuses --pages-ahead serve --model demo --pages-ahead lots
refuses --disk-bytes serve --model demo --disk-dir "$work/nothing" --disk-bytes lots
refuses --disk-dir serve --model demo --disk-bytes 1GiB
# In milliseconds this age is 2^64 and some hours.
refuses --disk-max-age serve --model demo --disk-dir "$work/nothing" --disk-max-age 213503982335d
refuses /nowhere cache stat /nowhere
refuses policy serve --model demo --policy magic
refuses /nowhere/keys serve --model demo --api-key-file /nowhere/keys
refuses --api-key-file serve --model demo --cache-scope key
refuses copy_tokens serve --model demo --copy-tokens -1
refuses copy_tokens run --model demo --prompt x --copy-tokens nan
refuses --copy-tokens serve --model demo --copy-tokens lots
refuses cache_scope serve --model demo --cache-scope everyone
refuses device serve --model demo --device tpu
refuses device run --model demo --prompt x --device cuda:first
refuses gemm serve --model demo --gemm fast
refuses gemm serve --model demo --device cpu --gemm cublaslt
refuses weights serve --model demo --weights int2
refuses "int4 is for the CPU" serve --model demo --device cuda:0 --weights int4
refuses weights_cache serve --model demo --weights-cache ''
refuses weights_cache bench model --shape tiny --weights-cache /nowhere
refuses "f32 is for the CPU" serve --model demo --device cuda:0 --kv f32
# No driver, no device or no CUDA in the build: one line that says which, whatever this machine has.
export CUDA_VISIBLE_DEVICES=
for device in cuda cuda:0; do
  refuses CUDA serve --model demo --device $device
  [ $refused = 1 ] || fail "--device $device ended with $refused"
done
refuses CUDA bench model --shape tiny --device cuda
[ $refused = 1 ] || fail "bench model --device cuda ended with $refused"
refuses "cublaslt needs a CUDA device: " serve --model demo --device auto --gemm cublaslt
# A server that could not answer a single request does not start.
refuses --body-limit serve --model demo --body-limit 0
refuses --max-connections serve --model demo --max-connections 0
refuses --drain-seconds serve --model demo --drain-seconds -1
refuses no-such-shape bench model --shape no-such-shape
refuses --url bench serve
refuses --rate bench serve --url http://127.0.0.1:1 --rate 1 --concurrency 2
refuses --url bench serve --url http://127.0.0.1:1 --threads 2
refuses magic bench serve --url http://127.0.0.1:1 --mix magic=1
refuses --mix bench serve --url http://127.0.0.1:1 --mix chat=lots
refuses --mix bench serve --url http://127.0.0.1:1 --workload chat --mix chat=1
refuses --json bench serve --url http://127.0.0.1:1 --each
refuses "--turns" bench serve --url http://127.0.0.1:1 --workload documents --turns 3
refuses "--leave" bench serve --url http://127.0.0.1:1 --mix chat=1,short=1 --leave 5
refuses --keep-bytes bench serve --url http://127.0.0.1:1 --keep-bytes lots
refuses --duration bench serve --url http://127.0.0.1:1 --duration nan
refuses "Connection refused" bench serve --url http://127.0.0.1:1
refuses "expected http://host" bench serve --url nowhere
refuses /nowhere/r.html bench serve --url http://127.0.0.1:1 --html /nowhere/r.html
refuses "context of" bench serve --model demo --device cpu --document-tokens 100000
printf 'prompt_tokens,overlap_tokens,parent\n500,0,-1\n520,400,0\n530,400,0\n' >"$work/trace.csv"
refuses /nowhere/t plan simulate --trace /nowhere/t
refuses "balanced:M" plan simulate --trace "$work/trace.csv" --policy magic
refuses lots plan simulate --trace "$work/trace.csv" --bytes lots
refuses no-such-shape plan simulate --trace "$work/trace.csv" --model-shape no-such-shape
refuses /nowhere/r.html plan simulate --trace "$work/trace.csv" --html /nowhere/r.html
refuses --write-tokens plan simulate --trace "$work/trace.csv" --write-tokens nan
echo earlier >"$work/earlier.html"
refuses /nowhere/t plan simulate --trace /nowhere/t --html "$work/earlier.html"
grep -q earlier "$work/earlier.html" || fail "a replay that failed cost the report of an earlier one"
refuses "field 'policy'" plan explain "$work/empty.json"
refuses "Connection refused" plan explain http://127.0.0.1:1
refuses "only http://" plan explain https://127.0.0.1:1
refuses "expected http://host" plan explain http://

echo '{"demand": [[512, 3], [2048, 1]], "budget": 1}' | "$cairn" plan solve - | python3 -m json.tool >/dev/null || fail "plan solve"
forest='"nodes": [{"parent": -1, "depth": 500, "demand": 1}], "state_bytes": 8, "kv_bytes_per_token": 2'
echo "{$forest, \"budget_bytes\": 1008}" | "$cairn" plan solve - | grep -q '"states":\[0\].*"bytes":1008' || fail "plan solve of a forest"
echo "{$forest}" | "$cairn" plan solve - 2>"$work/err" && fail "plan solve took a forest without a price or budget"
grep -q budget_bytes "$work/err" || fail "plan solve did not ask for a price or budget"
echo '{"demand": 5}' | "$cairn" plan solve - 2>"$work/err" && fail "plan solve took a bad demand"
grep -q demand "$work/err" || fail "plan solve did not name the field"
"$cairn" plan simulate --trace "$work/trace.csv" --policy branch,none --bytes 1GB,1GiB --state-bytes 1k \
  --html "$work/report.html" --json 2>/dev/null | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
assert [(r["policy"], r["bytes"]) for r in rows] == [
    ("branch", 10**9), ("none", 10**9), ("branch", 2**30), ("none", 2**30)], rows
for r in rows:
    assert r["requests"] == 3 and r["prompt_tokens"] == 1550 and r["reusable_tokens"] == 800, r
    # The first to leave the prompt finds nothing, the second the state that was planted for it.
    assert r["recomputed_tokens"] == (400 if r["policy"] == "branch" else 800), r
    assert r["recomputed_share"] == r["recomputed_tokens"] / 800, r
    assert {"states_written", "solve_ms_total", "gap"} <= set(r), r' || fail "plan simulate --json"
grep -q '<svg' "$work/report.html" || fail "plan simulate --html"
"$cairn" plan simulate --trace "$work/trace.csv" --policy branch,none --bytes 1GB 2>/dev/null \
  | grep -q '^strongest at 1 GB: branch' || fail "plan simulate's table"
echo '{"policy": "forest", "bytes": 1, "budget": 0, "price": 0, "nodes": [{"parent": -1, "depth": 7, "claim": "stored"}]}' \
  >"$work/plan.json"
"$cairn" plan explain "$work/plan.json" | grep -q '^> 7 tokens: planned' || fail "plan explain"
"$cairn" plan explain --svg - <"$work/plan.json" | grep -q '^<svg' || fail "plan explain --svg"
rm -rf "$work/tiny"
"$cairn" model make --shape tiny --seed 1 "$work/tiny" >/dev/null
"$cairn" model info "$work/tiny" | grep -q '^parameters' || fail "model info"
refuses "$work/tiny" model make --shape tiny "$work/tiny"
refuses /nowhere model quantize --model /nowhere
refuses "cannot be written" model quantize --model "$work/tiny" --out /nowhere/x
"$cairn" model quantize --model "$work/tiny" --weights int4 | grep -q 'cairn-int4.weights: int4/' || fail "model quantize"
rm "$work/tiny/model.safetensors"
"$cairn" bench model --model "$work/tiny" --weights int4 --lengths 16 --decode-tokens 4 --repeats 1 --threads 1 \
  | grep -q 'weights int4/' || fail "bench model from a file of weights alone"
[ "$("$cairn" model tokenize --model demo 'Hello')" != "[]" ] || fail "model tokenize"
refuses "0 to 1024" bench model --shape tiny --threads 100000
one=$("$cairn" run --model demo --prompt 'Hello' --max-tokens 8 --temperature 0 --threads 2 -q)
two=$(echo 'Hello' | "$cairn" run --model demo --max-tokens 8 --temperature 0 --threads 1 -q)
[ "$one" = "$two" ] || fail "run gave '$one', then '$two'"
"$cairn" bench model --shape tiny --lengths 16,64 --decode-tokens 4 --repeats 1 --threads 1 --device auto --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["decode_tokens_per_s"] > 0 and len(r["prefill"]) == 2, r
assert r["device"] == "cpu" and r["limits"]["fma_gflops"] > 0, r
run = r["median_decode"]
share = r["decode_bytes_per_token"] * run["decode_tokens_per_s"] / run["read_gbytes_per_s"] / 1e7
assert abs(r["percent_of_reads"] - share) < 1e-6 * share, r' || fail "bench model"

"$cairn" bench serve --model demo --threads 1 --cache-bytes 64MiB --requests 12 --document-tokens 120 --question-tokens 10 --opening-tokens 40 \
  --message-tokens 10 --turns 2 --max-tokens 3 --concurrency 2 --drop-cache first --verify --each --json - --html "$work/load.html" \
  2>/dev/null | python3 -c '
import json, sys
r = json.load(sys.stdin)
assert "weights bf16" in r["load"]["engine"] and r["load"]["seed"] == "1", r
assert r["ended"] == "complete" and r["answers_compared"] >= 12 and r["answers_different"] == 0, r
cold, warm = (p["workloads"][0] for p in r["passes"])
assert cold["answered"] == warm["answered"] == 12 and cold["first_token_ms"]["p50"] > 0, r
assert cold["computed_tokens"] >= cold["needed_tokens"] > 0, r  # also of chats, whose prompts are text
assert warm["computed_tokens"] == warm["needed_tokens"] < cold["computed_tokens"] // 4, r
assert r["passes"][0]["server_busy_seconds"] > 0 and len(r["passes"][0]["requests"]) == 12, r' || fail "bench serve"
grep -q '<svg' "$work/load.html" || fail "bench serve --html"

# A signal ends a load with a report of what was done.
"$cairn" bench serve --model demo --threads 1 --workload short --duration 60 --json "$work/load.json" >"$work/out" 2>"$work/err" &
client=$!
sleep 2
kill -INT $client
code=0
wait $client || code=$?
[ $code = 130 ] || fail "an interrupted load ended with $code: $(cat "$work/err")"
grep -q '"ended":"interrupted"' "$work/load.json" || fail "an interrupted load left no report"

# A signal during the drain ends the server at once; SIGTERM alone lets it end well.
rm -f "$work/port"
"$cairn" serve --model demo --port 0 --port-file "$work/port" --threads 1 --cache-bytes 64MiB --device auto >"$work/out" 2>"$work/err" &
server=$!
for _ in $(seq 600); do [ -s "$work/port" ] && break; sleep 0.1; done
grep -q '^device   cpu, ' "$work/out" || fail "--device auto without a device: $(cat "$work/out" "$work/err")"
[ "$(grep -c 'serving on the CPU: .*CUDA' "$work/err")" = 1 ] || fail "--device auto did not say why: $(cat "$work/err")"
curl -sN -d '{"messages":[{"role":"user","content":"x"}],"n":8,"ignore_eos":true,"stream":true}' \
  "http://127.0.0.1:$(cat "$work/port")/v1/chat/completions" >"$work/stream" &
client=$!
sleep 1
kill -INT $server
sleep 0.5
kill -INT $server 2>/dev/null || true
code=0
wait $server || code=$?
wait $client || true
[ $code = 130 ] || fail "two signals ended the server with $code, while it streamed $(wc -c <"$work/stream") bytes"
echo "passed: command line"
