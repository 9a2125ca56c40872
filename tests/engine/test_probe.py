import copy
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trainer_cases import SPEC

from steptune.core.job import AlgorithmSpec, JobSpec, KnobsSpec
from steptune.core.profile import CostCurve
from steptune.engine import probe
from steptune.engine.inputs import groups_share_prompts
from steptune.engine.model import build_model
from steptune.engine.plan import plan_batch
from steptune.engine.probe import NUM_OWED_SIZES, SIZES, probe_trainer
from steptune.engine.probe_batch import MIN_PADDED_ROWS, Picked, batch_of, pick_rows, typical_rows
from steptune.engine.probe_train import layouts_to_price
from steptune.envs.vocabulary import vocabulary_of

JOB = JobSpec(name="probe", model=SPEC, algorithm=AlgorithmSpec(num_updates=4, kl_coef=0.1))


class SteppingClock:
    """Every reading is one second later than the last."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


@pytest.fixture(scope="module")
def curves() -> list[CostCurve]:
    # CPU seconds of this process: the order of sizes must not depend on what else the machine does
    return probe_trainer(JOB, (1,), ("fp32", "bf16"), budget_s=60.0, clock=time.process_time)


def test_every_setting_has_a_curve_over_every_size_that_ends_above_its_start(curves: list[CostCurve]) -> None:
    for name, keys in (("train", 2 * 2 * 3), ("logprob", 2 * 3)):
        found = [curve for curve in curves if curve.name == name]
        assert len({str(sorted(curve.when.items())) for curve in found}) == len(found) == keys
        for curve in found:
            sizes = [point.x for point in curve.points]
            assert sizes == pytest.approx(SIZES, rel=0.25)
            assert curve.points[0].seconds < curve.points[-1].seconds  # neighbours may swap on a busy machine


def test_a_curve_names_only_the_knobs_that_change_its_cost(curves: list[CostCurve]) -> None:
    keys = {curve.name: set(curve.when) for curve in curves}
    logprob = {"train_threads", "train_dtype", "layout"}
    assert keys == {"train": logprob | {"recompute", "compile"}, "logprob": logprob, "optimizer": {"train_threads"}}


def test_a_forward_alone_costs_less_than_training(curves: list[CostCurve]) -> None:
    for logprob in (curve for curve in curves if curve.name == "logprob"):
        train = next(
            c for c in curves if c.name == "train" and c.when == {**logprob.when, "recompute": False, "compile": False}
        )
        assert logprob.points[-1].seconds < 0.8 * train.points[-1].seconds


def test_the_optimizer_has_one_price_per_update(curves: list[CostCurve]) -> None:
    (optimizer,) = [curve for curve in curves if curve.name == "optimizer"]
    assert [point.x for point in optimizer.points] == [1]
    assert 0 < optimizer.points[0].seconds < 1


def test_no_budget_still_buys_the_sizes_between_which_a_curve_bends() -> None:
    # on this clock a single call takes many seconds
    found = probe_trainer(JOB, (1,), ("fp32",), budget_s=0.0, clock=SteppingClock())
    assert {len(curve.points) for curve in found if curve.name != "optimizer"} == {NUM_OWED_SIZES}


@pytest.mark.parametrize(("pinned", "priced"), [("packed", ["packed"]), ("sorted", ["padded"])])
def test_only_the_layout_that_the_owner_pinned_is_priced(pinned: str, priced: list[str]) -> None:
    assert layouts_to_price(JOB.model_copy(update={"knobs": KnobsSpec(pin={"layout": pinned})})) == priced
    assert layouts_to_price(JOB) == ["padded", "packed", "shared_prefix"]


def test_a_probe_does_not_move_the_weights_that_it_measures_with(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model(SPEC, vocabulary_of(JOB).size, seed=1)
    before = copy.deepcopy(model.state_dict())
    monkeypatch.setattr(probe, "new_model", lambda _job: model)
    # at a rate of 10 the second update of the probe was refused: its gradient was NaN
    wild = JOB.algorithm.model_copy(update={"lr": 10.0, "weight_decay": 0.1})
    probe_trainer(JOB.model_copy(update={"algorithm": wild}), (1,), ("fp32",), budget_s=0.0, clock=SteppingClock())
    after = model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_probe_rows_are_those_of_the_job() -> None:
    rows = typical_rows(JOB)
    assert [sum(row) for row in rows] == sorted(sum(row) for row in rows)
    assert all(prompt >= 2 and 1 <= completion <= JOB.algorithm.max_completion_len for prompt, completion in rows)


ROWS = sorted([(4, 3), (9, 6), (9, 6), (12, 30)], key=sum)


@given(size=st.integers(1, 3000))
def test_a_probe_batch_fills_its_size_to_within_two_rows(size: int) -> None:
    for layout in ("padded", "packed"):
        rows = pick_rows(ROWS, layout, size, group_size=8).rows
        plan = plan_batch(
            [p for p, _ in rows], [c for _, c in rows], layout=layout, token_budget=10**9, max_completion_len=40
        )
        assert len(rows) % 2 == 0
        assert len(plan.micro_batches) == 1
        if layout == "padded" and size >= MIN_PADDED_ROWS * 42:
            assert plan.padded_tokens == len(rows) * 42
            assert abs(plan.padded_tokens - size) <= 2 * 42
        elif layout == "padded":
            # rows alike, as a group's are, and no other length would come nearer
            assert len(set(rows)) == 1
            assert len(rows) == MIN_PADDED_ROWS
            nearest = min(abs(MIN_PADDED_ROWS * sum(row) - size) for row in ROWS)
            assert abs(plan.padded_tokens - size) == nearest


def test_a_probe_batch_has_the_lengths_asked_for() -> None:
    batch = batch_of(Picked(rows=ROWS, group_B=[0, 1, 1, 2]), vocab_size=30)
    assert groups_share_prompts(batch.rollout.prompts)
    assert batch.rollout.prompts.lengths_B.tolist() == [4, 9, 9, 12]
    assert batch.rollout.mask_BT.sum(dim=1).tolist() == [3, 6, 6, 30]


@given(size=st.integers(1, 3000), group_size=st.integers(2, 9))
def test_a_probe_of_shared_prompts_has_groups_like_the_jobs(size: int, group_size: int) -> None:
    picked = pick_rows(ROWS, "shared_prefix", size, group_size=group_size)
    groups = [[row for row, g in zip(picked.rows, picked.group_B, strict=True) if g == n] for n in set(picked.group_B)]
    assert len(picked.rows) % 2 == 0
    assert len({len(group) for group in groups}) == 1
    assert all(len({prompt for prompt, _ in group}) == 1 for group in groups)
    whole = 8.5 + 11.25 * group_size  # mean prompt and completion of ROWS
    if size >= 4 * whole:
        assert len(groups) == round(size / whole)
        assert abs(len(groups[0]) - group_size) <= 2
