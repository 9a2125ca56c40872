"""A TRL profile into prices: a call of `generate` by rows and cache, a micro-batch by positions, what neither covers.

Surprise: seconds over rows are no line (with two threads, 1, 4 and 16 rows of one model took 25, 60 and 100 ms: a small
matrix stays on one core), so a micro-batch is looked up between its neighbours. Every number of rows
that a candidate can have is probed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from prospective.job import Moves
from prospective.trl_messages import GenerateCall, MicroPass, Probe, TrlProfile
from steptune.core.errors import explain
from steptune.core.profile import CostCurve, CurvePoint
from steptune.forecast.cluster.calibrate import line
from steptune.forecast.cluster.decode import DrainPoint, curve_from_drain
from steptune.forecast.cluster.rollout_knobs import RolloutCosts
from steptune.forecast.curve import ForecastError

REPEAT_SHARE = 1.3
"""Seconds that checkpointing adds, over the layers' own forward, where no probe turned it: saving and restoring around
every layer come on top. Fitted on the first campaign's TRL jobs, leaving one out (1.15 or 1.3)."""

MICRO_REST_S, CALL_REST_S = 0.0008, 0.003
"""Seconds that each micro-batch and each call of `generate` adds outside of forward, backward and `generate`: the
trainer's own bookkeeping. Fitted on the first campaign's TRL jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Seconds of a step: ``Step(rollout_s=0.8, train_s=1.1, rest_s=0.05)``."""

    rollout_s: float
    train_s: float
    rest_s: float

    @property
    def seconds(self) -> float:
        """The whole."""
        return self.rollout_s + self.train_s + self.rest_s


def measured_step(profile: TrlProfile) -> Step:
    """Return the profiled steps' means."""
    rollout_s = fmean(math.fsum(call.seconds for call in step.calls) for step in profile.steps)
    train_s = fmean(math.fsum(map(_seconds, step.micro)) for step in profile.steps)
    return Step(
        rollout_s=rollout_s,
        train_s=train_s,
        rest_s=fmean(step.seconds for step in profile.steps) - rollout_s - train_s,
    )


def find_probe(profile: TrlProfile, settings: Moves) -> Probe:
    """Return the probe under the settings' number format and threads.

    Raises:
        ForecastError: there is none.
    """
    key = settings["bf16"], settings["num_threads"]
    found = next((p for p in profile.probes if (p.bf16, p.num_threads) == key), None)
    if found is None:
        raise ForecastError(
            explain(
                "no probe of this number format and number of threads",
                got=f"bf16 {key[0]}, {key[1]} threads",
                allowed=", ".join(f"bf16 {p.bf16}, {p.num_threads} threads" for p in profile.probes),
                hint="profile the incumbent again",
            )
        )
    return found


def rollout_costs(profile: TrlProfile, settings: Moves) -> RolloutCosts:
    """Return what a call of `generate` costs under the settings. Raises ForecastError as `find_probe`."""
    probe = find_probe(profile, settings)
    calls = _typical_calls(probe.calls)
    own = _typical_calls(find_probe(profile, profile.settings).calls)
    points = [
        DrainPoint(running=call.rows, cached_tokens=0.0, seconds=seconds)
        for call in calls
        for seconds in call.iterations_s
    ]
    growth = _own_growth(profile) * _widest_iteration_s(calls) / _widest_iteration_s(own)
    base_s, per_token_s = line([(c.rows * c.prompt_len, _around_s(c)) for c in calls])
    curve = replace(curve_from_drain(points), per_cached_token_s=growth)
    return RolloutCosts(decode=curve, prefill_base_s=base_s, prefill_per_token_s=per_token_s)


def micro_curve(profile: TrlProfile, settings: Moves) -> CostCurve:
    """Return seconds of a micro-batch by its positions under the settings. Raises ForecastError as `find_probe`."""
    probe = find_probe(profile, settings)
    turned = bool(settings["gradient_checkpointing"]) - bool(profile.settings["gradient_checkpointing"])
    share = turned * _repeat_share(profile) if turned else 0.0
    points = [
        CurvePoint(x=rows * own[0].width, seconds=_typical(own, _seconds) + share * _typical(own, _layers))
        for rows, own in sorted(_by_rows(probe.micro).items())
    ]
    return CostCurve(name="micro-batch", when={}, unit="positions", points=tuple(points))


def rest_s(profile: TrlProfile, settings: Moves) -> float:
    """Return a step's seconds outside of `generate`, forward and backward."""
    own = profile.settings
    micro = _num_micro(profile, settings) - _num_micro(profile, own)
    calls = _whole(settings["generation_calls"]) - _whole(own["generation_calls"])
    return max(measured_step(profile).rest_s + MICRO_REST_S * micro + CALL_REST_S * calls, 0.0)


def num_prices(profile: TrlProfile, settings: Moves) -> int:
    """Return how many constants are fitted under the settings: knots, growth, prefill, micro-batches, checkpointing."""
    probe = find_probe(profile, settings)
    return len(_typical_calls(probe.calls)) + len(_by_rows(probe.micro)) + 4


def _num_micro(profile: TrlProfile, settings: Moves) -> float:
    return len(profile.lengths[0]) / _whole(settings["per_device_train_batch_size"])


def _repeat_share(profile: TrlProfile) -> float:
    """Return the seconds that checkpointing adds over the layers' forward; the median of all probes."""
    found = [_share(probe) for probe in profile.probes if probe.turned]
    return median(found) if found else REPEAT_SHARE


def _share(probe: Probe) -> float:
    as_is = _by_rows(probe.micro)[probe.turned[0].rows]
    return abs(_typical(probe.turned, _seconds) - _typical(as_is, _seconds)) / _typical(as_is, _layers)


def _typical_calls(calls: Sequence[GenerateCall]) -> list[GenerateCall]:
    """Return the middle call of each width, but for the first, which pays for buffers."""
    found: dict[int, list[GenerateCall]] = {}
    for call in calls:
        found.setdefault(call.rows, []).append(call)
    settled = [sorted(own[1:] or own, key=lambda call: call.seconds) for own in found.values()]
    return [own[(len(own) - 1) // 2] for own in settled]


def _typical(repeats: Sequence[MicroPass], of: Callable[[MicroPass], float]) -> float:
    """Return the median but for the first, which pays for buffers."""
    return median(map(of, repeats[1:] or repeats))


def _by_rows(micro: Sequence[MicroPass]) -> dict[int, list[MicroPass]]:
    found: dict[int, list[MicroPass]] = {}
    for one in micro:
        found.setdefault(one.rows, []).append(one)
    return found


def _seconds(micro: MicroPass) -> float:
    return micro.forward_s + micro.backward_s


def _layers(micro: MicroPass) -> float:
    return micro.layers_s


def _around_s(call: GenerateCall) -> float:
    """Return a call's seconds that are no decode iteration: prefill, set-up, cutting the rows."""
    return call.seconds - math.fsum(call.iterations_s)


def _widest_iteration_s(calls: Sequence[GenerateCall]) -> float:
    return fmean(max(calls, key=lambda call: call.rows).iterations_s)


def _own_growth(profile: TrlProfile) -> float:
    """Return seconds per cached token, from the incumbent's whole calls: all rows stay, only the cache grows."""
    calls = [call for step in profile.steps for call in step.calls]
    points = [
        DrainPoint(running=call.rows, cached_tokens=call.rows * (call.prompt_len + i), seconds=seconds)
        for call in calls
        for i, seconds in enumerate(call.iterations_s, 1)
    ]
    return curve_from_drain(points).per_cached_token_s


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
