#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whose prompts a client of the real server finds, and what the admin can do to them.  cache_scopes.sh CAIRN_BINARY WORK_DIR
set -euo pipefail
cairn=$1 work=$2/scopes
. "$(dirname "$0")/server.sh"
rm -rf "$work"
mkdir -p "$work"
printf 'key-of-ann\nkey-of-bob\n' >"$work/keys"
export CAIRN_ADMIN_KEY=root
start() { start_server "$1" --threads 1 --cache-bytes 64MiB --api-key-file "$work/keys" "${@:2}"; }
stop() {
  kill -TERM $server
  wait $server || fail "the server ended with $?"
  server=0
}
document=$(python3 -c 'print(" ".join(f"Stone {i} lies beside stone {i * 7 % 101}." for i in range(40)))')
# cached WHO FIELDS: the cached tokens of one request by that client; prompts of FIELDS "chat" go through the chat endpoint.
cached() {
  local who=$1 fields=$2 path=completions prompt="\"prompt\":\"$document\""
  if [ "${3:-}" = chat ]; then
    path=chat/completions prompt="\"messages\":[{\"role\":\"user\",\"content\":\"$document\"}]"
  fi
  curl -sS --fail-with-body -H "Authorization: Bearer key-of-$who" "$url/v1/$path" \
    -d "{$prompt,\"max_tokens\":2,\"temperature\":0$fields}" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["usage"]["prompt_tokens_details"]["cached_tokens"])'
}
hits() { [ "$(cached "$@")" -gt 200 ] || fail "$* found nothing"; }
misses() { [ "$(cached "$@")" = 0 ] || fail "$* found somebody else's prompt"; }
admin() { curl -sS -o "$work/answer" -w '%{http_code}' -H "Authorization: Bearer $1" "${@:2}"; }
states_on_disk() { curl -sS "$url/metrics" | awk '/^cairn_state_checkpoints.*tier="disk"/ { n += $NF } END { print n + 0 }'; }

start key --cache-scope key --disk-dir "$work/disk"
grep -q 'scope key' "$work/key.out" || fail "the start does not tell the scope"
for kind in text chat; do
  misses ann "" $kind
  misses bob "" $kind
  hits ann "" $kind
  hits bob "" $kind
  misses ann ',"cache_salt":"a"' $kind
  misses bob ',"cache_salt":"a"' $kind
  hits bob ',"cache_salt":"a"' $kind
  misses bob ',"cache_salt":"b","cache_prompt":false' $kind
  misses bob ',"cache_salt":"b"' $kind
done
[ "$(admin key-of-ann "$url/debug/plan")" = 401 ] || fail "a client saw the plan of all"
[ "$(admin key-of-ann -X POST "$url/admin/cache/drop")" = 401 ] || fail "a client may drop the cache"
"$cairn" plan explain "$url" --api-key root >"$work/plan" || fail "plan explain"
grep -q forest "$work/plan" || fail "plan explain said: $(cat "$work/plan")"
for _ in $(seq 100); do [ "$(states_on_disk)" -gt 0 ] && break; sleep 0.1; done
[ "$(states_on_disk)" -gt 0 ] || fail "nothing came to the disk"
[ "$(admin root -X POST "$url/admin/cache/drop")" = 200 ] || fail "the admin may not drop the cache: $(cat "$work/answer")"
python3 - "$work/answer" <<'PY' || fail "drop said $(cat "$work/answer")"
import json, sys
dropped = json.load(open(sys.argv[1]))["dropped"]
assert dropped["paths"] > 4 and dropped["states"] > 4 and dropped["bytes"] > 0 and dropped["disk_states"] > 0, dropped
PY
misses ann ""
hits ann ""
stop
if grep -rqE 'key-of-(ann|bob)|root' "$work/disk" "$work/key.out" "$work/key.err"; then fail "a key was written down"; fi

start global
misses ann ""
hits bob ""
misses bob ',"cache_salt":"a"'
hits ann ',"cache_salt":"a"'
[ "$(admin key-of-ann "$url/debug/plan")" = 200 ] || fail "a client may not see the plan"
stop

CAIRN_ADMIN_KEY='' "$cairn" serve --model demo --port 0 --cache-scope key 2>"$work/err" && fail "scope key without keys was accepted"
grep -q -- '--api-key-file' "$work/err" || fail "scope key without keys said: $(cat "$work/err")"
echo "passed: cache scopes"
