#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the real server with the demo model, lets clients at it, stops it with SIGTERM and expects exit 0.
#   run_server_tests.sh CAIRN_BINARY WORK_DIR curl|openai|prometheus
set -euo pipefail
cairn=$1 work=$2/$3 kind=$3
here=$(cd "$(dirname "$0")" && pwd)
openai_version=1.109.1

. "$here/server.sh"
[ -x "$cairn" ] || fail "$cairn is not built"
mkdir -p "$work"

start_server server --cache-bytes 256MiB --threads 2

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
[ $code = 0 ] || fail "the server ended with $code after SIGTERM: $(tail -5 "$work/server.err")"
echo "passed: $kind"
