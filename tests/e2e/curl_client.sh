#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server as curl sees it.  curl_client.sh URL
set -euo pipefail
url=$1
fail() { echo "FAILED: $*" >&2; exit 1; }
status() { curl -s -o /dev/null -w '%{http_code}' "$@"; }
expect() { [ "$1" = "$2" ] || fail "expected $2, got $1: $3"; }
chat='{"messages":[{"role":"user","content":"Hello, who are you?"}],"max_tokens":12,"temperature":0}'

expect "$(status "$url/health")" 200 health
expect "$(status "$url/")" 200 "status page"
expect "$(status "$url/status")" 200 status
expect "$(status "$url/v1/models/demo")" 200 "model by id"
expect "$(status "$url/v1/nothing")" 404 "unknown route"
expect "$(status -X DELETE "$url/v1/models")" 405 "wrong method"
expect "$(status -d '{:' "$url/v1/chat/completions")" 400 "malformed body"
expect "$(status -d '{"messages":"x"}' "$url/v1/chat/completions")" 400 "messages is a string"
expect "$(status -d '{"messages":[{"role":"user","content":"x"}],"model":"no"}' "$url/v1/chat/completions")" 404 "model"
expect "$(head -c 20000000 /dev/zero | status --data-binary @- "$url/v1/completions")" 413 "large body"

curl -sf -d "$chat" "$url/v1/chat/completions" | python3 -c '
import json, sys
a = json.load(sys.stdin)
assert a["choices"][0]["message"]["role"] == "assistant", a
assert a["choices"][0]["finish_reason"] in ("stop", "length"), a
assert a["usage"]["completion_tokens"] <= 12, a
assert 0 <= a["usage"]["prompt_tokens_details"]["cached_tokens"] < a["usage"]["prompt_tokens"], a
' || fail "chat answer"

# Warm equals cold, streamed equals whole.
whole() { curl -sf -d "$chat" "$url/v1/chat/completions" | python3 -c 'import json,sys; print(json.load(sys.stdin)["choices"][0]["message"]["content"])'; }
first=$(whole)
second=$(whole)
[ "$first" = "$second" ] || fail "a repeated greedy request gave another answer"
streamed=$(curl -sfN -d "${chat%\}},\"stream\":true}" "$url/v1/chat/completions" | python3 -c '
import json, sys
lines = [l[6:].strip() for l in sys.stdin if l.startswith("data: ")]
assert lines[-1] == "[DONE]", lines
print("".join(json.loads(l)["choices"][0]["delta"].get("content") or "" for l in lines[:-1]))')
[ "$first" = "$streamed" ] || fail "the stream gave another answer: $streamed"

tokens=$(curl -sf -d '{"content":"Hello world"}' "$url/tokenize")
text=$(curl -sf -d "$tokens" "$url/detokenize" | python3 -c 'import json,sys; print(json.load(sys.stdin)["content"])')
expect "$text" "Hello world" "tokenize and back"

# A client that leaves frees its place.
endless='{"messages":[{"role":"user","content":"x"}],"n":4,"ignore_eos":true'
curl -sN -m 1 -d "$endless,\"stream\":true}" "$url/v1/chat/completions" >/dev/null && fail "the stream ended by itself"
curl -sN -m 1 -d "$endless}" "$url/v1/chat/completions" >/dev/null && fail "the answer ended by itself"
for _ in $(seq 50); do
  running=$(curl -sf "$url/status" | python3 -c 'import json,sys; r=json.load(sys.stdin)["requests"]; print(r["running"]+r["waiting"])')
  [ "$running" = 0 ] && break
  sleep 0.1
done
expect "$running" 0 "requests left after their clients went"
# The last of it is counted a moment after the place is free; the page is read whole, or curl would fail on a closed pipe.
aborted=0
for _ in $(seq 50); do
  metrics=$(curl -sf "$url/metrics")
  grep -q '^cairn_requests_total{endpoint="chat",outcome="abort"} 2$' <<<"$metrics" && aborted=2 && break
  sleep 0.1
done
expect "$aborted" 2 "aborted requests in the metrics"
