"""TRL's and vLLM's forecasts on profiles made up from known prices: the true ratio comes back."""

from itertools import product

import pytest

from prospective import trl_forecast, vllm_forecast
from prospective.backend import PairTimes, Settled
from prospective.job import Job, LengthDraw, Moves
from prospective.step_lengths import step_lengths
from prospective.trl_messages import GenerateCall, MicroPass, Probe, StepTimes, TrlProfile
from prospective.trl_prices import CALL_REST_S, MICRO_REST_S, micro_curve
from prospective.vllm_costs import costs
from prospective.vllm_messages import BatchTimes, RowsProbe, VllmProfile
from prospective.vllm_space import num_blocks
from steptune.forecast.curve import price_at

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
    rest_s = REST_S + MICRO_REST_S * len(passes) + CALL_REST_S * len(calls)
    seconds = sum(c.seconds for c in calls) + sum(m.forward_s + m.backward_s for m in passes) + rest_s
    return StepTimes(step=index, seconds=seconds, prepare_s=0.0, calls=calls, micro=passes, optimizer_s=REST_S)


def trl_profile() -> TrlProfile:
    own = TRL.settings({})
    steps = tuple(trl_step(i, own) for i in range(4))
    probes = tuple(
        Probe(
            bf16=bf16, num_threads=threads, calls=tuple(call(rows, 10, at) for rows in (4, 8, 16)),
            micro=tuple(micro(rows, 60, at) for rows in (1, 4, 16)),
            turned=(micro(4, 60, {**at, "gradient_checkpointing": not at["gradient_checkpointing"]}),),
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

    trained = trl_forecast.modelled(TRL, profile, moves).train_s / trl_forecast.measured_step(profile).train_s

    def pair(rollout: float, train: float) -> PairTimes:
        slower = {trl_forecast.ROLLOUT: rollout, trl_forecast.TRAIN: train * trained}
        return PairTimes(
            incumbent_s=((1.0,),), candidate_s=((2.0,),), incumbent_phases_s=busy, candidate_phases_s=slower
        )

    first = trl_forecast.forecast(TRL, profile, (), moves)
    later = trl_forecast.forecast(TRL, profile, (Settled(moves=moves, pair=pair(1.0, 2.0)),), moves)
    assert later.ratio > first.ratio
    other = trl_forecast.forecast(TRL, profile, (Settled(moves=moves, pair=pair(2.0, 1.0)),), moves)
    assert other.ratio == pytest.approx(first.ratio)


VLLM = Job(
    name="vllm-test", engine="vllm", seed=1, model="short prompts", prompts_per_step=6, group_size=4,
    lengths=LengthDraw(median=24, sigma=0.6, longest=128), disturbance=None, candidates=(),
    baseline={
        "max_num_seqs": 8, "kv_frac": None, "prefix_caching": False, "client_rows": None, "order": "arrival",
    },
)  # fmt: skip


def waves(index: int, at_once: int, gap: int = 0) -> tuple[float, int]:
    """Walk a batch: 10 ms and 1 ms per running row, 0.5 ms per prompt position; ``gap`` iterations between two rows."""
    waiting, running, seconds, iterations = step_lengths(VLLM, index), list[int](), 0.0, 0
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0) + gap)
            seconds += 0.0005 * 24
        busy = len(running)
        seconds += 0.010 + 0.001 * busy
        iterations += 1
        running = [left - 1 for left in running if left > 1]
    return seconds, iterations


def equal_rows(rows: int, prompt_len: int, tokens: int) -> RowsProbe:
    seconds = tokens * (0.010 + 0.001 * rows) + 0.0005 * rows * (prompt_len - 1)
    return RowsProbe(rows=rows, prompt_len=prompt_len, tokens=tokens, seconds=seconds, iterations=tokens)


def vllm_profile() -> VllmProfile:
    batches = [
        BatchTimes(
            step=i, seconds=seconds, iterations=iterations, prompt_tokens=24 * 25, found_tokens=0, num_preemptions=0
        )
        for i in range(4)
        for seconds, iterations in [waves(i, 8)]
    ]
    return VllmProfile(
        settings=VLLM.settings({}), prompt_len=25, num_blocks=num_blocks(VLLM, None),
        lengths=tuple(tuple(step_lengths(VLLM, i)) for i in range(4)), batches=tuple(batches),
        probes=tuple(equal_rows(r, p, n) for r in (1, 2, 4, 8) for p in (8, 129) for n in (1, 24)), start_s=1.0,
    )  # fmt: skip


def test_prices_of_a_made_up_server_come_back() -> None:
    found = costs(vllm_profile())
    assert found.decode.iteration_s(8, 500) == pytest.approx(0.018, rel=0.01)
    assert found.per_position_s == pytest.approx(0.0005, rel=0.05)
    assert found.turn_s < 0.001


@pytest.mark.parametrize(("moves", "at_once"), [({"max_num_seqs": 32}, 24), ({"max_num_seqs": 16}, 16)])
def test_a_made_up_server_is_forecast_from_equal_rows(moves: Moves, at_once: int) -> None:
    told = vllm_forecast.forecast(VLLM, vllm_profile(), (), moves)
    true = sum(waves(i, at_once)[0] for i in range(4)) / sum(waves(i, 8)[0] for i in range(4))
    assert told.ratio == pytest.approx(true, rel=0.03)
    assert told.low < true < told.high


def test_a_trial_of_a_servers_limit_corrects_the_next_one_of_it_and_narrows_it() -> None:
    profile, moves = vllm_profile(), {"max_num_seqs": 16}
    first = vllm_forecast.forecast(VLLM, profile, (), moves)
    slower = PairTimes(incumbent_s=((1.0,),), candidate_s=((1.2 * first.ratio,),))
    later = vllm_forecast.forecast(VLLM, profile, (Settled(moves=moves, pair=slower),), moves)
    assert first.ratio < later.ratio < 1.2 * first.ratio
    other = vllm_forecast.forecast(VLLM, profile, (Settled(moves={"order": "longest_first"}, pair=slower),), moves)
    assert other.ratio < later.ratio


def test_rows_beyond_the_profile_are_less_sure() -> None:
    bare, profile = VLLM.settings({}), vllm_profile()
    few = profile.model_copy(update={"settings": bare, "probes": tuple(p for p in profile.probes if p.rows <= 2)})
    known, unknown = (vllm_forecast.forecast(VLLM, p, (), {"max_num_seqs": 32}) for p in (profile, few))
    assert unknown.high / unknown.low > known.high / known.low


def test_a_micro_batch_is_looked_up_between_its_neighbours_and_not_on_a_line_through_all() -> None:
    # 1, 4 and 16 rows of 60 positions take 25, 60 and 100 ms: 2 rows lie between the first two
    def one(rows: int, seconds: float) -> MicroPass:
        return MicroPass(rows=rows, width=60, forward_s=0.0, layers_s=0.0, backward_s=seconds)

    bent = (one(1, 0.025), one(4, 0.060), one(16, 0.100))
    profile = trl_profile()
    own = profile.model_copy(update={"probes": tuple(p.model_copy(update={"micro": bent}) for p in profile.probes)})
    curve = micro_curve(own, own.settings)
    assert price_at(curve, 120).seconds == pytest.approx(0.025 + 0.035 / 3)


def test_checkpointing_costs_what_the_turned_micro_batch_says() -> None:
    # own steps repeat the layers; turned off, 4 rows take 0.02 s less at 0.016 s of layers: the share is 1.25
    def passes(rows: int, backward_s: float) -> MicroPass:
        return MicroPass(rows=rows, width=60, forward_s=0.02, layers_s=0.004 * rows, backward_s=backward_s)

    micro_on, off = (passes(4, 0.08), passes(8, 0.16)), (passes(4, 0.06),)
    profile = trl_profile()
    probes = tuple(p.model_copy(update={"micro": micro_on, "turned": off}) for p in profile.probes)
    own = profile.model_copy(update={"probes": probes})
    without = micro_curve(own, {**own.settings, "gradient_checkpointing": False})
    assert price_at(without, 480).seconds == pytest.approx(0.18 - 1.25 * 0.032)


def test_batches_that_differ_at_equal_lengths_widen_a_servers_forecast() -> None:
    profile, moves = vllm_profile(), {"max_num_seqs": 16}
    again = tuple(batch.model_copy(update={"seconds": 1.5 * batch.seconds}) for batch in profile.batches)
    twice = profile.model_copy(update={"lengths": profile.lengths * 2, "batches": profile.batches + again})
    steady = twice.model_copy(update={"batches": profile.batches * 2})
    wide, narrow = (vllm_forecast.forecast(VLLM, p, (), moves) for p in (twice, steady))
    assert wide.high / wide.low > narrow.high / narrow.low
