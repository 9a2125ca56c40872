"""What a run's own words become on this side of the pipe: a sentence for the user, never a traceback."""

import os
from pathlib import Path

import pytest

from steptune.adapters.embedded.session import EngineSession
from steptune.core.errors import StepTuneError, TrialError

ENDS = """
import sys
print('{"answer": "ready"}', flush=True)
sys.stdin.readline()
print('{"answer": "error", "kind": "%s", "text": "no more; in `train`; hint: less"}', flush=True)
"""


@pytest.mark.parametrize(("kind", "says"), [("out_of_memory", "no more"), ("JobError", "JobError: no more")])
def test_a_run_that_ends_itself_is_an_error_of_ours(tmp_path: Path, kind: str, says: str) -> None:
    (tmp_path / "ends.py").write_text(ENDS % kind)
    session = EngineSession("{}", tmp_path / "run", {**os.environ, "PYTHONPATH": str(tmp_path)}, module="ends")
    # the command line shows StepTuneErrors, the tuner tells memory from other causes
    with pytest.raises(TrialError, match=f"^{says}; in `train`; hint: less") as error:
        session.run_steps(1)
    assert isinstance(error.value, StepTuneError)
    assert isinstance(error.value, MemoryError) is (kind == "out_of_memory")
    assert session.process.returncode is not None
