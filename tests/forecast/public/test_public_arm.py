import math

import pytest

from steptune.forecast.public.arm import PublicForecaster, calibrate
from steptune.forecast.public.generation import cache_rows
from steptune.forecast.public.job import CannotReadError, read
from steptune.forecast.public.parameters import NAMES, PRIOR, moved, penalty
from steptune.forecast.public.schedule import phases, step_s
from steptune.published.public_run import PublicRun, public_runs
from steptune.score.model import stated

MODEL = PublicForecaster()


def row(**fields: object) -> PublicRun:
    """Return a row that states enough to be read: Qwen2.5-7B on 32 shared H100, 1,024 samples."""
    given: dict[str, object] = {
        "id": "row",
        "source": "someone/repo:docs/x.md",
        "framework": "NeMo-RL",
        "model": "Qwen2.5-7B",
        "gpu_type": "H100",
        "n_gpus": 32,
        "placement": "colocated",
        "prompts_per_step": 64,
        "group_size": 16,
        "max_response_len": 8192,
        "mean_response_len": 2000,
        "async_lag": "0",
        "rollout_tp": 1,
        "row_kind": "full_step",
        "quality": "A",
        **fields,
    }
    return PublicRun.model_validate(given)


BASE = row(id="base", step_time_s=200.0)


def ratio(other: PublicRun, base: PublicRun = BASE) -> float:
    forecast = MODEL.step_s(stated(other), measured=base)
    assert forecast is not None
    assert base.step_time_s is not None
    return forecast / base.step_time_s


def published(run_id: str) -> PublicRun:
    return next(run for run in public_runs() if run.id == run_id)


def test_the_measured_row_is_forecast_as_its_own_step() -> None:
    assert ratio(BASE) == pytest.approx(1.0, rel=1e-6)
    for run in (published("verl-fa-7b-128-async"), published("verl-1off-FSDP2-colocate")):
        assert ratio(run, run) == pytest.approx(1.0, rel=1e-6)


def test_more_devices_are_faster_but_never_in_proportion() -> None:
    # the tail of generation and the fixed parts do not shrink
    assert 0.5 < ratio(row(n_gpus=64)) < 1.0


def test_longer_answers_and_more_samples_never_forecast_faster() -> None:
    assert ratio(row(mean_response_len=4000)) > 1.0
    assert ratio(row(prompts_per_step=128)) > 1.0


def test_sides_of_their_own_that_wait_for_each_other_are_slower() -> None:
    assert ratio(row(placement="disaggregated", gpus_train=28, gpus_rollout=4)) > 1.05


def test_letting_samples_live_across_updates_beats_draining_every_batch() -> None:
    split = {"placement": "disaggregated", "gpus_train": 16, "gpus_rollout": 16, "async_lag": "1"}
    drained, steady = row(**split), row(**split, other_settings={"in_flight_weight_updates": True})
    assert ratio(steady) < ratio(drained)


def test_a_deeper_queue_runs_more_rows_at_once() -> None:
    split = {"placement": "disaggregated", "gpus_train": 16, "gpus_rollout": 16, "max_response_len": 4096}
    one = phases(read(row(**split, async_lag="1", other_settings={"in_flight_weight_updates": True}), None), PRIOR)
    eight = phases(read(row(**split, async_lag="8"), None), PRIOR)
    assert eight.generation < one.generation


def test_weights_of_one_byte_leave_room_for_the_cache() -> None:
    wide = {"model": "DeepSeek-V3", "rollout_tp": 16, "n_gpus": 256}
    bf16, fp8 = (read(row(**wide, precision_rollout=name), None) for name in ("bf16", "fp8"))
    assert cache_rows(fp8) > 10 * cache_rows(bf16)


def test_experts_that_train_one_after_the_other_are_slower() -> None:
    moe = {"model": "Qwen3-30B-A3B", "framework": "verl"}
    fsdp = read(row(**moe, other_settings={"backend": "fsdp+vllm"}), None)
    megatron = read(row(**moe, other_settings={"backend": "megatron+vllm"}), None)
    assert phases(fsdp, PRIOR).train > 2 * phases(megatron, PRIOR).train


def test_training_on_half_of_128_devices_is_not_rejected() -> None:
    # measured: 356.3 s shared, 150.6 s apart; training took 113.8 and 113.2 s. A linear model would call it slower
    base, other = published("verl-fa-7b-128-colocate"), published("verl-fa-7b-128-async")
    assert ratio(other, base) < 0.75


def test_a_pipeline_of_few_micro_batches_is_slower() -> None:
    base = row(id="flat", step_time_s=200.0, train_pp=1, train_tp=2)
    assert ratio(row(train_pp=4, train_tp=2), base) > 1.0


def test_an_exposed_wait_is_not_taken_for_generation() -> None:
    run = published("verl-fa-7b-128-async")  # waits 33 s of 151 s, trains 113 s
    job = read(run, run)
    assert job.is_async
    assert not job.is_shared
    raw = phases(job, PRIOR)
    assert step_s(job, raw, PRIOR) > raw.train


def test_silence_is_filled_from_the_measured_row_before_a_default() -> None:
    silent = row(mean_response_len=None)
    assert read(silent, BASE).mean_new == 2000
    assert read(silent, None).mean_new == pytest.approx(0.4 * 8192)
    assert read(silent, None).assumed == ("lengths",)


def test_a_device_without_facts_is_refused_with_its_reason() -> None:
    with pytest.raises(CannotReadError, match="facts"):
        read(row(gpu_type="Abacus 9"), None)
    assert MODEL.step_s(row(gpu_type="Abacus 9"), measured=None) is None
    assert MODEL.refusal(row(gpu_type="Abacus 9"), measured=None) == "the device's facts are not known"


def test_a_split_that_decides_and_is_not_stated_is_refused_with_what_to_say() -> None:
    sync, overlapped = published("marin-0p6b-sync"), stated(published("marin-0p6b-async-c4a3"))
    assert MODEL.step_s(overlapped, measured=sync) is None
    assert "say how many train" in (MODEL.refusal(overlapped, measured=sync) or "")
    told = overlapped.model_copy(update={"n_gpus": 8.0, "gpus_train": 4.0, "gpus_rollout": 4.0})
    assert MODEL.step_s(told, measured=sync) is not None


def test_a_split_that_hardly_matters_is_assumed() -> None:
    sync, overlapped = published("areal-v03-1.5-sync"), stated(published("areal-v03-1.5-async"))
    assert "split" in read(overlapped, sync).assumed
    assert MODEL.step_s(overlapped, measured=sync) is not None


def test_what_a_row_does_not_time_keeps_the_models_own_scale() -> None:
    # a steady row that times training alone: ten times as slow says nothing of generation
    steady = row(id="steady", step_time_s=300.0, train_s=280.0, async_lag="8", placement="disaggregated", gpus_train=16)
    steady = steady.model_copy(update={"gpus_rollout": 16.0})
    job = read(steady, steady)
    factors, _ = calibrate(job, phases(job, PRIOR), steady, PRIOR)
    assert factors["train"] == pytest.approx(280 / phases(job, PRIOR).train)
    assert factors["generation"] == 1.0


def test_an_unknown_device_on_both_sides_cancels() -> None:
    base = row(gpu_type="Abacus 9", step_time_s=100.0, id="odd")
    assert ratio(row(gpu_type="Abacus 9", n_gpus=64), base) < 1.0


def test_every_published_row_gives_a_finite_time_or_a_reason() -> None:
    for run in public_runs():
        seconds = MODEL.step_s(stated(run), measured=None)
        reason = MODEL.refusal(stated(run), measured=None)
        assert (seconds is None) == (reason is not None), run.id
        assert seconds is None or 0 < seconds < math.inf


def test_parameters_are_counted_and_named_with_their_priors() -> None:
    assert PRIOR.listed().startswith(f"{len(NAMES)} free parameters")
    assert penalty(PRIOR) == 0.0
    assert penalty(moved(PRIOR, "train", 0.25)) == pytest.approx(0.5)
    assert moved(PRIOR, "trust", 9.0).trust == 1.0
