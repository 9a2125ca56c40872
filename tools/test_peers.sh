#!/usr/bin/env bash
# Holds our baselines against the real thing: makes .venv-peers with the pinned TRL, installs this project into it
# and runs tests/peers. Ends non-zero if anything fails, does not install, or TRL cannot be imported.
# WITH_VLLM=1 makes vLLM's environment too (3.4 GB); without it the tests of vLLM are skipped, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3.11}
venv=.venv-peers
stamp=$venv/.installed

if [ ! -e "$stamp" ] || [ requirements/peers-trl.txt -nt "$stamp" ] || [ requirements/peers-trl.lock -nt "$stamp" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet -r requirements/peers-trl.txt
    "$venv/bin/pip" install --quiet --no-deps --no-build-isolation -e .
    touch "$stamp"
fi

if [ "${WITH_VLLM:-0}" = 1 ]; then
    bash tools/make_vllm.sh
elif [ ! -e .venv-vllm/.installed ] && [ -z "${STEPTUNE_VLLM_PYTHON:-}" ]; then
    echo "vLLM: not tested, there is no .venv-vllm; WITH_VLLM=1 makes it (3.4 GB)"
fi

"$venv/bin/python" -W ignore -c "import trl"  # without it every test would be skipped, which must not look like success

# Passive waiting: on a shared machine threads that spin count as work and slow their neighbours.
export OMP_WAIT_POLICY=passive
exec "$venv/bin/python" -m pytest tests/peers "$@"
