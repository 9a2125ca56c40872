"""TRL's and vLLM's forecasts on profiles made up from known prices: the true ratio comes back."""

from itertools import product

import pytest

from prospective import trl_forecast, vllm_forecast
from prospective.backend import PairTimes, Settled
from prospective.job import Job, LengthDraw, Moves
from prospective.step_lengths import step_lengths
from prospective.trl_messages import GenerateCall, MicroPass, Probe, StepTimes, TrlProfile
from prospective.vllm_messages import BatchTimes, Reading, VllmProfile
from prospective.vllm_space import num_blocks

TRL = Job(
    name="trl-test", engine="trl", seed=1, model="dense", prompts_per_step=4, group_size=4,
    lengths=LengthDraw(median=12, sigma=0.7, longest=48), disturbance=None, candidates=(),
    baseline={
        "per_device_train_batch_size": 2, "generation_calls": 1, "gradient_checkpointing": True, "bf16": False,
        "num_threads": 2,
    },
)  # fmt: skip
PROMPT, REST_S = 20, 0.02
FORMAT_FACTOR = {False: 1.0, True: 1.7}


def iteration_s(rows: int, settings: Moves) -> float:
    return (0.004 + 0.0002 * rows) * FORMAT_FACTOR[bool(settings["bf16"])] / settings["num_threads"]


def micro(rows: int, width: int, settings: Moves) -> MicroPass:
    forward_s = (0.004 + 2e-5 * rows * width) * FORMAT_FACTOR[bool(settings["bf16"])] / settings["num_threads"]
    layers_s = 0.8 * forward_s
    backward_s = 2 * forward_s + (layers_s if settings["gradient_checkpointing"] else 0.0)
    return MicroPass(rows=rows, width=width, forward_s=forward_s, layers_s=layers_s, backward_s=backward_s)


def call(rows: int, tokens: int, settings: Moves) -> GenerateCall:
    one_s = iteration_s(rows, settings)
    iterations_s = (one_s,) * (tokens - 1)
    prefill_s = one_s + 1e-5 * rows * PROMPT
    return GenerateCall(
        rows=rows, prompt_len=PROMPT, prefill_s=prefill_s, iterations_s=iterations_s,
        seconds=prefill_s + one_s * (tokens - 1),
    )  # fmt: skip


def trl_step(index: int, settings: Moves) -> StepTimes:
    lengths, count, rows = step_lengths(TRL, index), settings["generation_calls"], 0
    rows = len(lengths) // count
    longest = [max(lengths[i : i + rows]) for i in range(0, len(lengths), rows)]
    calls = tuple(call(rows, n, settings) for n in longest)
    size = settings["per_device_train_batch_size"]
    passes = tuple(micro(size, PROMPT + n, settings) for n in longest for _ in range(rows // size))
    seconds = sum(c.seconds for c in calls) + sum(m.forward_s + m.backward_s for m in passes) + REST_S
    return StepTimes(step=index, seconds=seconds, prepare_s=0.0, calls=calls, micro=passes, optimizer_s=REST_S)


def trl_profile() -> TrlProfile:
    own = TRL.settings({})
    steps = tuple(trl_step(i, own) for i in range(4))
    probes = tuple(
        Probe(
            bf16=bf16, num_threads=threads, calls=tuple(call(rows, 10, at) for rows in (4, 8, 16)),
            micro=tuple(micro(rows, 60, at) for rows in (1, 4, 16)),
        )
        for bf16, threads in product((False, True), (1, 2))
        for at in [{**own, "bf16": bf16, "num_threads": threads}]
    )  # fmt: skip
    lengths = tuple(tuple(step_lengths(TRL, s.step)) for s in steps)
    return TrlProfile(settings=own, group_size=4, lengths=lengths, steps=steps, probes=probes, start_s=1.0)


def true_ratio(moves: Moves) -> float:
    steps = range(4)
    return sum(trl_step(i, TRL.settings(moves)).seconds for i in steps) / sum(
        trl_step(i, TRL.settings({})).seconds for i in steps
    )


@pytest.mark.parametrize(
    "moves",
    [
        {"gradient_checkpointing": False},
        {"per_device_train_batch_size": 8},
        {"generation_calls": 4},
        {"bf16": True, "num_threads": 1},
        {"generation_calls": 2, "gradient_checkpointing": False, "per_device_train_batch_size": 1},
    ],
)
def test_a_made_up_trl_job_is_forecast_from_its_incumbent(moves: Moves) -> None:
    told = trl_forecast.forecast(TRL, trl_profile(), (), moves)
    assert told.ratio == pytest.approx(true_ratio(moves), rel=0.03)
    assert told.low < told.ratio < told.high


def test_a_phase_that_no_move_touches_keeps_its_forecast_whatever_trials_said() -> None:
    profile, moves = trl_profile(), {"per_device_train_batch_size": 8}
    busy = {trl_forecast.ROLLOUT: 1.0, trl_forecast.TRAIN: 1.0}
    pair = PairTimes(
        incumbent_s=((1.0,),), candidate_s=((2.0,),), incumbent_phases_s=busy,
        candidate_phases_s={**busy, trl_forecast.TRAIN: 2.0},
    )  # fmt: skip
    first = trl_forecast.forecast(TRL, profile, (), moves)
    later = trl_forecast.forecast(TRL, profile, (Settled(moves=moves, pair=pair),), moves)
    assert later.ratio > first.ratio
    other = trl_forecast.forecast(TRL, profile, (Settled(moves={"generation_calls": 4}, pair=pair),), moves)
    assert other.ratio == pytest.approx(first.ratio)


VLLM = Job(
    name="vllm-test", engine="vllm", seed=1, model="short prompts", prompts_per_step=6, group_size=4,
    lengths=LengthDraw(median=24, sigma=0.6, longest=128), disturbance=None, candidates=(),
    baseline={
        "max_num_seqs": 8, "kv_frac": None, "prefix_caching": False, "client_rows": None, "order": "arrival",
    },
)  # fmt: skip


def waves_s(index: int, at_once: int, gap: int = 0) -> tuple[float, list[Reading]]:
    """Walk a batch iteration by iteration: 10 ms and 1 ms per running row; ``gap`` of them a row's slot is empty."""
    waiting, running, readings, seconds = step_lengths(VLLM, index), list[int](), list[Reading](), 0.0
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0) + gap)
        one_s = 0.010 + 0.001 * len(running)
        seconds += one_s
        readings.append(
            Reading(
                seconds=one_s, iterations=1, generated_tokens=len(running), kv_usage_frac=0.0, prompt_tokens=0,
                num_preemptions=0,
            )
        )  # fmt: skip
        running = [left - 1 for left in running if left > 1]
    return seconds, readings


def vllm_profile() -> VllmProfile:
    batches = [
        BatchTimes(
            step=i, seconds=s, iterations=0, num_preemptions=0, is_watched=i >= 4, readings=tuple(r) if i >= 4 else ()
        )
        for i in range(8)
        for s, r in [waves_s(i, 8)]
    ]
    lengths = tuple(tuple(step_lengths(VLLM, i)) for i in range(8))
    return VllmProfile(
        settings=VLLM.settings({}), prompt_len=25, num_blocks=num_blocks(VLLM, None), lengths=lengths,
        batches=tuple(batches), prefills=((25, 0.011), (150, 0.011)), start_s=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(("moves", "at_once", "gap"), [({"max_num_seqs": 32}, 24, 0), ({"client_rows": 4}, 4, 1)])
def test_a_made_up_server_is_forecast_from_its_drain(moves: Moves, at_once: int, gap: int) -> None:
    told = vllm_forecast.forecast(VLLM, vllm_profile(), (), moves)
    steps = range(4)
    true = sum(waves_s(i, at_once, gap)[0] for i in steps) / sum(waves_s(i, 8)[0] for i in steps)
    assert told.ratio == pytest.approx(true, rel=0.04)


def test_rows_beyond_the_profile_are_less_sure() -> None:
    profile = vllm_profile()
    fewer, more = (vllm_forecast.forecast(VLLM, profile, (), {"max_num_seqs": n}) for n in (4, 32))
    assert more.high / more.low > fewer.high / fewer.low
