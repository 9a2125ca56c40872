"""A server that answers as vLLM does, prompts and weights for it."""

import re
import sys
from pathlib import Path

import torch

from steptune.core.model import DenseModel
from steptune.engine.foreign.server import ServerProcess, free_port
from steptune.engine.foreign.settings import VllmSettings
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.model import build_model
from steptune.engine.produce import TOKENIZER
from steptune.engine.types import PromptBatch

STUB = Path(__file__).with_name("stub_server.py")
SPEC = DenseModel(num_layers=1, d_model=32, num_heads=1, num_kv_heads=1, d_ff=16)
"""A head of 32, the least that vLLM's CPU kernels have."""
STATE = build_model(SPEC, TOKENIZER.vocab_size, seed=0).state_dict()
MINIMAL = {"PATH": "/usr/bin:/bin"}


def stub(folder: Path, model: Path, how: str = "") -> ServerProcess:
    """Start the stub."""
    port = free_port()
    return ServerProcess([sys.executable, "-I", str(STUB), str(port), str(model), how], MINIMAL, folder, port)


def child_of(log: Path) -> int | None:
    """Return the process that the stub started, once its log says so."""
    found = re.search(r"engine process (\d+)", log.read_text(encoding="utf-8")) if log.exists() else None
    return int(found.group(1)) if found else None


def is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def stub_engine(folder: Path, how: str = "", temperature: float = 1.0, start_timeout_s: float = 30.0) -> VllmEngine:
    """Return an engine whose server is the stub; close it."""
    return VllmEngine(
        SPEC,
        VllmSettings(python=Path("unused"), max_model_len=64, start_timeout_s=start_timeout_s),
        vocab_size=TOKENIZER.vocab_size,
        pad_id=TOKENIZER.pad_id,
        eos_id=TOKENIZER.eos_id,
        temperature=temperature,
        folder=folder,
        start=lambda model: stub(folder, model, how),
    )


def grouped_prompts(num_prompts: int = 2, group_size: int = 3) -> PromptBatch:
    """Return prompts [5, 10] and [6, 11, 16], and so on, each ``group_size`` times."""
    rows = [[5 + i, 10 + i, *([16] * (i % 2))] for i in range(num_prompts)]
    width = max(map(len, rows))
    index_B = torch.arange(num_prompts).repeat_interleave(group_size)
    return PromptBatch(
        tokens_BP=torch.tensor([row + [0] * (width - len(row)) for row in rows])[index_B],
        lengths_B=torch.tensor([len(row) for row in rows])[index_B],
        group_B=index_B,
        problem_B=100 + index_B,
        sample_B=torch.arange(group_size).repeat(num_prompts),
    )
