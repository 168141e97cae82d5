#!/usr/bin/env bash
# Installs the Debian 12 packages that are missing.  Usage: install_dependencies.sh [build|test|check]
#   build: what the program needs;  test: also what the test suite needs;  check: also what CI needs.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config ccache libcaf-dev prometheus-cpp-dev libboost1.81-dev
  libboost-json1.81-dev libcli11-dev libspdlog-dev libpcre2-dev libutf8proc-dev
  libsqlite3-dev libxxhash-dev libcurl4-openssl-dev zlib1g-dev python3 curl ca-certificates)
test=(catch2 libboost-context1.81-dev python3-jinja2 python3-venv prometheus)
check=(git clang clang-format clang-tidy libclang-rt-14-dev)

case "${1:-build}" in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${build[@]}" "${test[@]}") ;;
  check) wanted=("${build[@]}" "${test[@]}" "${check[@]}") ;;
  *)
    echo "install_dependencies.sh: expected build, test or check, got '$1'" >&2
    exit 2
    ;;
esac

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "install_dependencies.sh: root is needed to install: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Services that a package brings (Prometheus) are not to be started by its installation.
if ! { "${as_root[@]}" apt-get update &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "install_dependencies.sh: apt-get failed (its last lines are above)" >&2
  exit 1
fi
