#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the real server with the demo model, lets clients at it, stops it with SIGTERM and expects exit 0.
#   run_server_tests.sh CAIRN_BINARY WORK_DIR curl|openai|prometheus
set -euo pipefail
cairn=$1 work=$2/$3 kind=$3
here=$(cd "$(dirname "$0")" && pwd)
openai_version=1.109.1

fail() { echo "FAILED: $*" >&2; exit 1; }
[ -x "$cairn" ] || fail "$cairn is not built"
mkdir -p "$work"
rm -f "$work/port"

"$cairn" serve --model demo --port 0 --port-file "$work/port" --cache-bytes 256MiB --threads 2 \
  >"$work/server.out" 2>"$work/server.log" &
server=$!
trap 'kill -KILL $server 2>/dev/null || true' EXIT
for _ in $(seq 600); do
  [ -s "$work/port" ] && break
  kill -0 $server 2>/dev/null || fail "the server ended at start: $(cat "$work/server.log")"
  sleep 0.1
done
[ -s "$work/port" ] || fail "no port after 60 s: $(cat "$work/server.log")"
url=http://127.0.0.1:$(cat "$work/port")

case $kind in
  curl)
    bash "$here/curl_client.sh" "$url" ;;
  openai)
    venv=$2/venv-openai-$openai_version
    if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import openai' 2>/dev/null; then
      rm -rf "$venv"
      python3 -m venv "$venv" || fail "python3 -m venv does not work here (package python3-venv)"
      "$venv/bin/pip" install --quiet "openai==$openai_version" || fail "pip install openai==$openai_version"
    fi
    "$venv/bin/python" "$here/openai_client.py" "$url" ;;
  prometheus)
    bash "$here/prometheus.sh" "$url" "$work" ;;
  *)
    fail "unknown kind $kind" ;;
esac

kill -TERM $server
code=0
wait $server || code=$?
trap - EXIT
[ $code = 0 ] || fail "the server ended with $code after SIGTERM: $(tail -5 "$work/server.log")"
echo "passed: $kind"
