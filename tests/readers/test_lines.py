import pytest

from steptune.readers.lines import clean


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[36m(TaskRunner pid=7, ip=10.0.0.1)\x1b[0m step:1 - a/b:1\n", "step:1 - a/b:1"),
        ("(WorkerDict pid=7) [repeated 3x across cluster] slow\n", "slow"),
        ("(WorkerDict pid=7) slow [repeated 15x across cluster]\r\n", "slow"),
        ("  4933:(RolloutManager pid=6809) perf 0: {}\n", "perf 0: {}"),
        ("run_2.log:12:ERROR: no\n", "ERROR: no"),
        ("0: {'loss': 0.1}", "0: {'loss': 0.1}"),
        ("02:40:52 SUCCESS Step 0\n", "02:40:52 SUCCESS Step 0"),
        ("> step:1 - a/b:1\n", "step:1 - a/b:1"),
        ("8125 - response_length/max:1024.0\n", "8125 - response_length/max:1024.0"),
        ("  0%|   |\rstep:4 - a/b:1\n", "step:4 - a/b:1"),
        ("[36m(TaskRunner pid=7)[0m step:1 - a/b:1\n", "step:1 - a/b:1"),
        (
            "^[[36m(LLMRayActor pid=9)^[[0m INFO [block_pool.py:264] reset^[[32m [repeated 7x across cluster]^[[0m\n",
            "INFO [block_pool.py:264] reset",
        ),
        ("ready in [31m 5s], then [30m]\n", "ready in [31m 5s], then [30m]"),
    ],
)
def test_only_what_was_put_around_a_line_is_taken_off(raw: str, text: str) -> None:
    assert clean(raw) == text
