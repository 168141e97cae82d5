#!/usr/bin/env bash
# What is too long or too noisy for CI: floors of speed, limits of the planner, what is promised of a running engine, all
# rules on all recorded orders, a soak against a server that never caches. For a quiet machine. Every check runs, whatever
# the ones before it said; a table at the end tells which missed.
# usage: check_all.sh [--quick] [--minutes N] [--with-torch]
#   --quick leaves out what takes more than five minutes; --minutes is the soak's time.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

minutes=3
quick=
torch=
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) quick=1 ;;
    --minutes)
      minutes=${2-}
      [[ $minutes =~ ^[0-9]*\.?[0-9]+$ ]] || {
        echo "check_all.sh: --minutes wants a number, not '$minutes'" >&2
        exit 2
      }
      shift
      ;;
    --with-torch) torch=1 ;;
    -h | --help)
      echo "usage: scripts/check_all.sh [--quick] [--minutes N] [--with-torch]"
      exit 0
      ;;
    *)
      echo "check_all.sh: unknown argument '$1' (expected --quick, --minutes N or --with-torch)" >&2
      exit 2
      ;;
  esac
  shift
done

out=build/release
model=build/model-0.8b
benches=(bench_placement bench_forest_solver bench_prefix bench_planner bench_reach bench_leave_one_out
  bench_policy_tables bench_drift bench_disk bench_live bench_paper)
rows=()
missed=0

load() { cut -d' ' -f1-3 /proc/loadavg; }

# check NAME COMMAND...: a row of the summary, with seconds and the load average that the check found.
check() {
  local name=$1 found start=$SECONDS status=0
  shift
  found=$(load)
  echo "== $name"
  "$@" || status=$?
  if [ "$status" -eq 0 ]; then
    rows+=("$(printf 'met     %5d s  load %-16s  %s' $((SECONDS - start)) "$found" "$name")")
  else
    missed=$((missed + 1))
    rows+=("$(printf 'MISSED  %5d s  load %-16s  %s (status %d)' $((SECONDS - start)) "$found" "$name" "$status")")
  fi
}

# The same for what takes more than five minutes.
long() {
  if [ -n "$quick" ]; then
    rows+=("$(printf 'left out%27s  %s' '' "$1")")
  else
    check "$@"
  fi
}

build() {
  scripts/install_dependencies.sh test && cmake --preset release >/dev/null &&
    cmake --build --preset release && cmake --build --preset release --target "${benches[@]}"
}

make_model() { [ -f "$model/config.json" ] || "$out/cairn" model make --shape qwen3.5-0.8b "$model"; }

floors() {
  "$out/cairn" bench model --shape qwen3.5-0.8b --lengths 128,512,2048 --json >build/bench_model.json &&
    python3 - build/bench_model.json <<'PY'
import json
import sys

result = json.load(open(sys.argv[1]))
print(json.dumps(result, indent=1))
prefill = next(p["prefill_tokens_per_s"] for p in result["prefill"] if p["tokens"] == 512)
decode = result["decode_tokens_per_s"]
print(f"prefill 512: {prefill:.0f} tokens/s, decode: {decode:.1f} tokens/s")
if prefill < 100 or decode < 10:
    raise SystemExit("below the floor")
PY
}

# For a device, which need not be here.
gpu_check() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "no nvcc on this machine: not compiled"
    return 0
  fi
  cmake -S . -B build/gpu_check -G Ninja -DCMAKE_BUILD_TYPE=Release -DCAIRN_GPU_CHECK=ON \
    -DCMAKE_CUDA_ARCHITECTURES=90-real >/dev/null && cmake --build build/gpu_check
}

reference_packages() {
  local venv=build/venv-reference
  { [ -d "$venv" ] || python3 -m venv "$venv"; } &&
    "$venv/bin/pip" install -q -r scripts/demo/requirements.txt &&
    "$venv/bin/python" scripts/demo/check_tiny_transformers.py tests/fixtures/tiny &&
    "$venv/bin/python" scripts/demo/check_transformers.py --help >/dev/null
}

echo "$(nproc) processors, load average $(load) before"
check "build" build
check "a model of the published shape, random weights" make_model

check "speed of the Qwen3.5-0.8B shape (prefill of 512 at 100 tokens/s, decode at 10)" floors
check "placement programme (100,000 depths with M = 30 under 60 ms)" "$out/bench/bench_placement"
check "forest solver (100,000 nodes at one price under 150 ms)" "$out/bench/bench_forest_solver"
check "prefix cache (look-up among 100,000 places under 200 us)" "$out/bench/bench_prefix"
check "late plans cost at most a point; rule and planner under 0.2 ms a request" \
  "$out/bench/bench_planner" bench/traces/mix5.csv.gz
check "drifting demand beside its bound" "$out/bench/bench_drift"
check "disk tier" "$out/bench/bench_disk" build/bench_disk

check "chat that only grows: first token within 1 % of last's" "$out/bench/bench_live" chat --model "$model"
check "states copied out and in: at most 1.5 x plain copies" "$out/bench/bench_live" copies --model "$model"
check "decoding beside a solver: at most 3 % slower" "$out/bench/bench_live" solve --model "$model"
check "questions on a document: the simulator's tokens, a cold engine's bits" \
  "$out/bench/bench_live" document --model "$model"
long "seconds are linear in tokens recomputed" "$out/bench/bench_paper" wallclock --model "$model"

long "comparison rules beside their figures" "$out/bench/bench_policy_tables" bench/traces
long "the default rule against all others, on every recorded order" \
  "$out/bench/bench_reach" --threads 2 bench/traces
long "what each part of the default rule is worth" "$out/bench/bench_leave_one_out" --threads 2 bench/traces
check "bugs planted in CUDA kernels are found by their tests" python3 tests/simt/mutations/run.py
check "what scripts/gpu_check.sh builds" gpu_check
check "soak of $minutes minutes" python3 scripts/soak.py "$out/cairn" --minutes "$minutes"
[ -z "$torch" ] || check "reference packages" reference_packages

echo
echo "== summary: $(nproc) processors, load average $(load) after"
printf '%s\n' "${rows[@]}"
if [ "$missed" -gt 0 ]; then
  echo "$missed of ${#rows[@]} checks missed"
  exit 1
fi
echo "no check missed"
