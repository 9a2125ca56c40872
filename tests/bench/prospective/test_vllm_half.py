"""vLLM's half over a server that measures nothing: which batches run where, and what a profile asks of it."""

from pathlib import Path

import pytest

from prospective import vllm_half
from prospective.job import Job, LengthDraw, Moves
from prospective.step_lengths import PERIOD_STEPS
from prospective.vllm_half import VllmHalf
from prospective.vllm_messages import BatchTimes, RowsProbe

JOB = Job(
    name="vllm-test", engine="vllm", seed=1, model="long prompts", prompts_per_step=6, group_size=4,
    lengths=LengthDraw(median=24, sigma=0.6, longest=128), disturbance=None, candidates=({"order": "longest_first"},),
    baseline={"max_num_seqs": 16, "kv_frac": 0.2, "prefix_caching": True, "client_rows": None, "order": "arrival"},
)  # fmt: skip


class FakeServer:
    """Takes 1 s a batch; twice that where groups are ordered."""

    log: list[tuple[str, int]] = []

    def __init__(self, job: Job, moves: Moves) -> None:
        self.name, self.start_s = str(job.settings(moves)["order"]), 0.0

    def run(self, step: int, settings: Moves) -> BatchTimes:
        self.log.append((self.name, step))
        return BatchTimes(
            step=step, seconds=2.0 if self.name == "longest_first" else 1.0, iterations=60, prompt_tokens=4632,
            found_tokens=3456, num_preemptions=0,
        )  # fmt: skip

    def probe(self, rows: int, prompt_len: int, tokens: int, number: int) -> RowsProbe:
        return RowsProbe(rows=rows, prompt_len=prompt_len, tokens=tokens, seconds=0.1, iterations=tokens)

    def rest(self) -> None:
        self.log.append((self.name, -1))

    def close(self) -> None:
        pass


@pytest.fixture
def half(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> VllmHalf:
    monkeypatch.setattr(vllm_half, "Server", FakeServer)
    monkeypatch.setattr(FakeServer, "log", [])
    return VllmHalf()


def test_both_sides_run_the_same_new_prompts_each_length_twice_in_either_order(half: VllmHalf) -> None:
    pair = half.pair(JOB, JOB.candidates[0])
    assert pair.ratio == pytest.approx(2.0)
    counted = [(name, step) for name, step in FakeServer.log if step >= vllm_half.STRIDE]
    own, other = ([step for name, step in counted if name == kind] for kind in ("arrival", "longest_first"))
    assert own == other == list(range(vllm_half.STRIDE, vllm_half.STRIDE + 2 * PERIOD_STEPS))
    # who ran a step first, by its lengths: each was first once
    first = {step: next(name for name, own in counted if own == step) for step in own}
    for step in own[:PERIOD_STEPS]:
        assert {first[step], first[step + PERIOD_STEPS]} == {"arrival", "longest_first"}


def test_a_profile_probes_as_many_rows_as_its_cache_holds(half: VllmHalf) -> None:
    probes = half.profile(JOB).probes
    # 54 blocks, one kept by vLLM; long rows of 321 tokens take 11, short ones 1
    long = max(probe.prompt_len for probe in probes)
    assert max(probe.rows for probe in probes if probe.prompt_len == long) == 4
    assert max(probe.rows for probe in probes if probe.prompt_len < long) == 16
    assert {probe.tokens for probe in probes if probe.rows == 1} == {1, vllm_half.PROBE_TOKENS}
