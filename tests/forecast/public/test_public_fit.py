import math

from steptune.cli.public_model import evidence, refitted_without
from steptune.forecast.public.arm import PublicForecaster
from steptune.forecast.public.evidence import phases_of, trainer_row
from steptune.forecast.public.fit import Evidence, PhaseEvidence, fit, loss
from steptune.forecast.public.job import read
from steptune.forecast.public.parameters import FITTED, NAMES, PRIOR
from steptune.forecast.public.schedule import phases
from steptune.published.public_run import public_runs
from steptune.published.split import Side

RUNS = public_runs()


def test_evidence_is_of_side_fit_alone() -> None:
    seen = evidence(RUNS)
    assert seen.ratios
    assert seen.phases
    assert {one.base.side for one in seen.ratios} == {Side.FIT}


def test_the_committed_constants_are_what_their_evidence_gives() -> None:
    again = fit(evidence(RUNS))
    for name in NAMES:
        assert math.isclose(getattr(again, name), getattr(FITTED, name), rel_tol=0.01), name


def test_a_left_out_owner_leaves_no_evidence() -> None:
    assert all(one.base.owner != "verl-project" for one in evidence(RUNS, without="verl-project").ratios)


def test_a_source_that_was_never_evidence_needs_no_new_fit() -> None:
    model = PublicForecaster()
    assert refitted_without("nvidia-nemo", RUNS, model) is model


def test_a_fit_moves_towards_what_it_sees_and_no_further_than_its_doubt() -> None:
    # one row that trains twice as long as the prior says: the posterior lies between
    run = next(run for run in RUNS if run.id == "miles-qwen38-27b")
    job = read(run, run)
    prior_s = phases(job, PRIOR).train
    seen = Evidence(ratios=(), phases=[PhaseEvidence(group="g", job=job, phase="train", seconds=2 * prior_s)])
    fitted = fit(seen)
    assert loss(fitted, seen) < loss(PRIOR, seen)
    assert prior_s < phases(job, fitted).train < 2 * prior_s


def test_without_evidence_a_fit_is_its_prior() -> None:
    assert fit(Evidence(ratios=(), phases=())) == PRIOR


def test_a_trainer_benchmark_is_read_as_full_packs() -> None:
    run = next(run for run in RUNS if "8xh100-Qwen--Qwen3-4B-Instruct-2507-rl-full" in run.id)
    step = trainer_row(run)
    assert step is not None
    (one,) = phases_of(step)
    # two packs of 16,384 on each of eight devices
    assert math.isclose(one.job.tokens, 2 * 8 * 16384)
    assert one.phase == "train"
    assert one.seconds == run.train_s


def test_rows_without_lengths_are_no_evidence_of_seconds() -> None:
    run = next(run for run in RUNS if run.id == "verl-fa-7b-128-colocate")
    assert list(phases_of(run)) == []
