#!/usr/bin/env bash
# Checks every CUDA path of the engine on one GPU, then measures its levers; under eight minutes. See docs/guides/gpu.md
#
#   bash bench/gpu_check.sh [OUT.json] [--device cpu] [--tiny] [--budget-s 420]
#
# Uses the Python that `PYTHON` names, or `python3`, with the torch it has; installs nothing, sends nothing anywhere.
# Exit: 0 nothing failed, 1 a check failed, 2 no device or no torch, 124 cut off after nine minutes (a hang).
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
if ! "$python" -c 'import pydantic, safetensors, torch' 2>/dev/null; then
  echo "gpu_check: \`$python\` lacks torch, safetensors or pydantic; hint: PYTHON=/path/to/python bash $0" >&2
  exit 2
fi
export PYTHONPATH="$here/../src${PYTHONPATH:+:$PYTHONPATH}" PYTHONHASHSEED=0
if command -v timeout >/dev/null; then
  exec timeout --kill-after=10 540 "$python" "$here/gpu/run.py" "$@"
fi
exec "$python" "$here/gpu/run.py" "$@"
