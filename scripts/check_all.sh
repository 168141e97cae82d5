#!/usr/bin/env bash
# What is too long or too noisy for CI: the floors of speed, the placement programme's times, a soak against a server that
# never caches, and the comparisons with reference packages.  usage: check_all.sh [--minutes N] [--with-torch]
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=3
torch=
while [ $# -gt 0 ]; do
  case "$1" in
    --minutes) minutes=$2 && shift ;;
    --with-torch) torch=1 ;;
    *)
      echo "check_all.sh: unknown argument '$1' (expected --minutes N or --with-torch)" >&2
      exit 2
      ;;
  esac
  shift
done

scripts/install_dependencies.sh test
cmake --preset release >/dev/null
cmake --build --preset release
cmake --build --preset release --target bench_placement bench_prefix bench_kernels bench_tokenizer bench_reach bench_planner

echo "== speed of the Qwen3.5-0.8B shape, bf16 (floors: prefill of 512 at 100 tokens/s, decode at 10)"
build/release/cairn bench model --shape qwen3.5-0.8b --lengths 128,512,2048 --json >build/bench_model.json
python3 - <<'PY'
import json
result = json.load(open("build/bench_model.json"))
print(json.dumps(result, indent=1))
prefill = result["prefill_tokens_per_s"]["512"]
decode = result["decode_tokens_per_s"]
print(f"prefill 512: {prefill:.0f} tokens/s, decode: {decode:.1f} tokens/s")
if prefill < 100 or decode < 10:
    raise SystemExit("below the floor (is the machine quiet?)")
PY

echo "== placement programme (100,000 depths with M = 30 under 60 ms; doubling K doubles the time)"
build/release/bench/bench_placement

echo "== prefix cache"
build/release/bench/bench_prefix

echo "== soak: $minutes minutes"
python3 scripts/soak.py build/release/cairn --minutes "$minutes"

echo "== the default rule against all others, on every recorded order"
build/release/bench/bench_reach --threads 2 bench/traces

echo "== late plans, planner under 0.2 ms a request"
build/release/bench/bench_planner bench/traces/mix5.csv.gz

if [ -n "$torch" ]; then
  echo "== reference packages"
  venv=build/venv-reference
  [ -d "$venv" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q -r scripts/demo/requirements.txt
  "$venv/bin/python" scripts/demo/check_tiny_transformers.py tests/fixtures/tiny
  "$venv/bin/python" scripts/demo/check_transformers.py --help >/dev/null
fi
echo "all checks passed"
