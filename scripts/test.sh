#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test.  Extra arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh test
cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release --timeout 900 -j"$(nproc)" "$@"
