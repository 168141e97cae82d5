# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start servers of their own; needs $cairn and $work.

fail() { echo "FAILED: $*" >&2; exit 1; }
server=0
trap '[ $server = 0 ] || kill -KILL $server 2>/dev/null || true' EXIT

# start_server NAME FLAGS...: sets $server and $url; what it prints is in $work/NAME.out and .err.
start_server() {
  local name=$1
  shift
  rm -f "$work/port"
  "$cairn" serve --model demo --port 0 --port-file "$work/port" "$@" >"$work/$name.out" 2>"$work/$name.err" &
  server=$!
  for _ in $(seq 600); do
    [ -s "$work/port" ] && break
    kill -0 $server 2>/dev/null || fail "the server ended at start: $(cat "$work/$name.err")"
    sleep 0.1
  done
  [ -s "$work/port" ] || fail "no port after 60 s: $(cat "$work/$name.err")"
  url=http://127.0.0.1:$(cat "$work/port")
}
