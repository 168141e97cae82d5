#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server that is killed and started again resumes from its disk cache; a second one is refused the directory.
#   disk_cache.sh CAIRN_BINARY WORK_DIR
set -euo pipefail
cairn=$1 work=$2/disk
. "$(dirname "$0")/server.sh"
rm -rf "$work"
mkdir -p "$work"
dir=$work/cache

start() { start_server "$1" --threads 1 --cache-bytes 64MiB --disk-dir "$dir" "${@:2}"; }

document=$(python3 -c 'print(" ".join(f"The stone number {i} lies beside the stone number {i * 7 % 101}." for i in range(120)))')
python3 - "$document" >"$work/request" <<'PY'
import json, sys
print(json.dumps({"prompt": sys.argv[1], "max_tokens": 12, "temperature": 0, "ignore_eos": True}))
PY
ask() { curl -sS --fail-with-body -d @"$work/request" "$url/v1/completions"; }
text_of() { python3 -c 'import json, sys; print(json.load(sys.stdin)["choices"][0]["text"])'; }
cached_of() { python3 -c 'import json, sys; print(json.load(sys.stdin)["usage"]["prompt_tokens_details"]["cached_tokens"])'; }
states_on_disk() { curl -sS "$url/metrics" | awk '/^cairn_state_checkpoints.*tier="disk"/ { n += $NF } END { print n + 0 }'; }

start first --disk-bytes 1GiB --disk-max-age 7d
grep -q "disk_bytes 1.00 GiB" "$work/first.out" || fail "the start does not tell the disk's size"
ask >"$work/cold"
[ "$(cached_of <"$work/cold")" = 0 ] || fail "a first request found something cached"
for _ in $(seq 100); do [ "$(states_on_disk)" -gt 0 ] && break; sleep 0.1; done
[ "$(states_on_disk)" -gt 0 ] || fail "nothing came to the disk"
sleep 0.5

[ "$(stat -c %a "$dir")" = 700 ] || fail "the directory is open to others"
[ "$(find "$dir" -type f ! -perm 600 | wc -l)" = 0 ] || fail "a file is open to others"
for command in "cache stat $dir" "cache purge $dir" "serve --model demo --port 0 --disk-dir $dir"; do
  # shellcheck disable=SC2086
  "$cairn" $command >"$work/out" 2>"$work/err" && fail "cairn $command while a server has the directory"
  grep -q "is in use by process $server" "$work/err" || fail "cairn $command said: $(cat "$work/err")"
done

kill -KILL $server
wait $server 2>/dev/null || true
start second
ask >"$work/warm"
[ "$(cached_of <"$work/warm")" -gt 500 ] || fail "only $(cached_of <"$work/warm") tokens came from the disk"
[ "$(text_of <"$work/warm")" = "$(text_of <"$work/cold")" ] || fail "the answer from disk differs"
kill -TERM $server
code=0
wait $server || code=$?
[ $code = 0 ] || fail "the server ended with $code"

"$cairn" cache stat "$dir" >"$work/stat" || fail "cache stat"
grep -q '^states  *[1-9]' "$work/stat" || fail "cache stat said: $(cat "$work/stat")"
grep -q '^kv=bf16' "$work/stat" || fail "cache stat does not tell who wrote it"
start other --kv f32
grep -q "kv was bf16, is f32 here" "$work/other.err" || fail "another KV type is not named: $(cat "$work/other.err")"
[ "$(ask | cached_of)" = 0 ] || fail "a state of another KV type was used"
kill -TERM $server
wait $server || true
"$cairn" cache stat "$dir" >"$work/stat"
[ "$(grep -c '^written by' "$work/stat")" = 2 ] || fail "cache stat shows: $(cat "$work/stat")"
start again
[ "$(ask | cached_of)" -gt 500 ] || fail "another KV type has cost the first one's states"
kill -TERM $server
wait $server || true
touch "$work/file"
for flags in "--disk-dir $work/file" "--disk-dir /proc/cache" "--disk-dir $dir --disk-bytes 0" "--cache-bytes 0"; do
  # shellcheck disable=SC2086
  "$cairn" serve --model demo --port 0 $flags >"$work/out" 2>"$work/err" && fail "serve $flags started"
  [ "$(wc -l <"$work/err")" -le 2 ] || fail "serve $flags said: $(cat "$work/err")"
done
"$cairn" cache purge "$dir" | grep -q '^removed' || fail "cache purge"
[ "$(find "$dir" -type f ! -name lock | wc -l)" = 0 ] || fail "purge left $(ls "$dir")"
trap - EXIT
echo "passed: disk cache"
