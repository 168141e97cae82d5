#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cairn beside llama.cpp: run.sh --help tells the options, README.md the rest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$here/../../build/compare_llama_cpp/venv
export PYTHONDONTWRITEBYTECODE=1
if ! "$venv/bin/python" -c 'import numpy' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'numpy>=1.26'
fi
"$venv/bin/python" "$here/test_gguf.py" --quiet # a file that is wrong would be compared in vain
"$venv/bin/python" "$here/test_compare.py" --quiet
exec "$venv/bin/python" "$here/compare.py" "$@"
