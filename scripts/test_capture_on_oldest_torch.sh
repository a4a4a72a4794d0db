#!/usr/bin/env bash
# Runs the capture tests on the oldest torch that provstore.capture supports, in an environment of its own (some GB).
set -euo pipefail
cd "$(dirname "$0")/.."
environment=.venv-oldest-torch
python="${PYTHON:-python3}"
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet "torch==2.8.*" numpy orjson pytest
"$environment/bin/python" -m pytest tests/unit/capture "$@"
