#!/usr/bin/env bash
# From a fresh Debian 12 machine to a served model: installs, builds, serves the embedded demo model and asks two
# questions about one document.  With --once it ends after the requests, non-zero unless the second one
# found at least half of its prompt cached.
set -euo pipefail
cd "$(dirname "$0")/.."

once=
port=${CAIRN_PORT:-8080}
while [ $# -gt 0 ]; do
  case "$1" in
    --once) once=--once ;;
    --port) port=$2 && shift ;;
    -h | --help)
      echo "usage: scripts/quickstart.sh [--once] [--port N]"
      exit 0
      ;;
    *)
      echo "quickstart.sh: unknown argument '$1' (expected --once or --port N)" >&2
      exit 2
      ;;
  esac
  shift
done

scripts/install_dependencies.sh build
cmake --preset release -DCAIRN_BUILD_TESTS=OFF -B build/quickstart >/dev/null
cmake --build build/quickstart --target cairn

work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then
    kill -TERM "$server"
    wait "$server" || true
  fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

[ -z "$once" ] || port=0
build/quickstart/cairn serve --model demo --port "$port" --port-file "$work/port" &
server=$!
for _ in $(seq 300); do
  [ -s "$work/port" ] && break
  kill -0 "$server" 2>/dev/null || {
    echo "quickstart.sh: the server ended before it was ready" >&2
    exit 1
  }
  sleep 0.1
done
[ -s "$work/port" ] || {
  echo "quickstart.sh: the server was not ready after 30 s" >&2
  exit 1
}

python3 examples/two_questions.py "http://127.0.0.1:$(cat "$work/port")" $once
[ -n "$once" ] && exit 0
echo
echo "Serving on http://127.0.0.1:$(cat "$work/port") until Ctrl-C (status page: /, metrics: /metrics)."
wait "$server"
