"""Phases by stack, memory errors by their words, remedies that keep the mathematics."""

import faulthandler
import tempfile
import traceback

import pytest

from steptune.core.errors import TrialError
from steptune.engine.knobs import EngineKnobs
from steptune.engine.out_of_memory import is_out_of_memory, remedy, told
from steptune.engine.where import PHASE_OF_FILE, phase_of_stack

STACK = """Traceback (most recent call last):
  File "/x/steptune/engine/serve.py", line 90, in _serve
  File "/x/steptune/engine/loop.py", line 12, in step
  File "/x/steptune/engine/trainer.py", line 55, in update
  File "/x/steptune/engine/models/layers.py", line 8, in forward
RuntimeError: no
"""

TORCH_CPU = "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."


def test_the_innermost_frame_that_a_phase_owns_names_it() -> None:
    assert phase_of_stack(STACK, innermost_first=False) == ("train", "trainer.update")
    upside_down = "\n".join(reversed(STACK.splitlines()))
    assert phase_of_stack(upside_down, innermost_first=True) == ("train", "trainer.update")
    inside = STACK.replace("engine/models/layers.py", "engine/stream/admission.py")
    assert phase_of_stack(inside, innermost_first=False) == ("rollout", "stream.forward")


@pytest.mark.parametrize("text", ["", "no stack", 'File "/x/other/engine/trainer.py", line 1, in f'])
def test_frames_of_nobody_leave_the_phase_unknown(text: str) -> None:
    assert phase_of_stack(text, innermost_first=False) == ("unknown", "")


def test_what_faulthandler_prints_is_read(tmp_path: object) -> None:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=False)
        file.seek(0)
        frames = file.read().replace("tests/engine/test_where", "steptune/engine/rollout")
    assert phase_of_stack(frames, innermost_first=True)[0] == "rollout"


def test_every_file_that_a_phase_owns_exists() -> None:
    from importlib.util import find_spec

    assert [name for name in PHASE_OF_FILE if find_spec(f"steptune.engine.{name}") is None] == []


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (RuntimeError(TORCH_CPU), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("out of memory"), False),
        (TrialError("the rollout worker (process 7) failed: RuntimeError: [enforce fail] can't allocate memory"), True),
        (TrialError("the rollout worker (process 7) failed: MemoryError: "), True),
        (TrialError("the rollout worker (process 7) died, got ...; hint: 9 is often the system out of memory"), False),
    ],
)
def test_memory_errors_are_known_by_type_or_words(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory


def test_the_remedy_is_the_smallest_of_its_phase() -> None:
    knobs = EngineKnobs(micro_batch_tokens=512, rollout_concurrency=12)
    assert remedy("train", knobs) == "`micro_batch_tokens = 256` (it is 512), then `recompute = true`"
    assert "`rollout_concurrency = 6`" in remedy("rollout", knobs)
    assert "`rollout_concurrency` of half the rows" in remedy("rollout", EngineKnobs())
    assert "recompute" not in remedy("train", EngineKnobs(recompute=True))
    assert "neither changes a result" in remedy("unknown", knobs)


def test_the_answer_names_phase_frame_and_remedy_on_one_line() -> None:
    try:
        raise RuntimeError(TORCH_CPU + "\nmore")
    except RuntimeError as error:
        alone = told(error, traceback.format_exc(), EngineKnobs())
        in_training = told(error, STACK, EngineKnobs())
    assert "in an unknown phase" in alone
    assert "; in `train` (trainer.update); hint: `micro_batch_tokens = 1024`" in in_training
    assert "\n" not in in_training
