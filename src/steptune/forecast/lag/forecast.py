"""P(lag = k) of a planned configuration, with its interval, at the profile's lengths.

Three things leave it open: what each side's seconds are known to, which lengths a run draws, and how a queue near
balance wanders. So the race is run several times: the sides apart by so many deviations of what they are known to, the
groups drawn again. Surprise: the middle is the mean of these runs and not the run of the middle, for near balance the
lag jumps with the faster side, and who does not know the faster side must not claim the jump.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from steptune.core.errors import explain
from steptune.core.estimate import Estimate, Source
from steptune.core.event import LearntFrom
from steptune.core.forecast import Forecast
from steptune.core.lag import CountedLag, LagDistribution, LagShare, StreamLag
from steptune.core.profile import Profile, SampledLengths
from steptune.core.work import PlannedWork
from steptune.forecast.curve import ForecastError
from steptune.forecast.interval import Z_80, apart, part_sd
from steptune.forecast.lag.priced import StreamPrices, stream_prices
from steptune.forecast.lag.race import race
from steptune.forecast.lag.replica import Rows
from steptune.forecast.model import fit
from steptune.forecast.residual import noise_sd
from steptune.forecast.taught import teach

NUM_RUNS = 9
"""Races behind a distribution: the sides' ratio at as many equally likely values. 17 moved no mean of the prospective
campaign's queues by more than 0.031 updates (bench/forecast_lag.py, 9 streams)."""

NUM_STEPS = 24
"""Steps of a race that count."""

BALANCE_SD = 0.05
"""Deviation (log) of rollout over training that no part's own error tells: two processes on one memory bus. Prior."""

KNOWN = "counted: it follows from the schedule, whichever side is faster"
INTERVAL = "80 % interval: sides, lengths and the queue's own wandering"


def with_lag(
    forecast: Forecast,
    *,
    profile: Profile,
    planned_baseline: PlannedWork,
    planned: PlannedWork,
    history: tuple[LearntFrom, ...],
) -> Forecast:
    """Return the forecast with the ages of its tokens, or with why nobody can tell them."""
    if forecast.refused is not None:
        return forecast
    try:
        ages = lag_distribution(forecast, profile, planned_baseline, planned, history)
    except ForecastError as error:
        ages = LagDistribution(mean=None, unknown=str(error))
    return forecast.model_copy(update={"ages": ages})


def lag_distribution(
    forecast: Forecast,
    profile: Profile,
    planned_baseline: PlannedWork,
    planned: PlannedWork,
    history: tuple[LearntFrom, ...],
) -> LagDistribution:
    """Return the ages of a plan that has a forecast.

    Raises:
        ForecastError: the plan does not say how its queue works, or the profile lacks prices or lengths.
    """
    plan = planned.ages
    if plan is None:
        raise ForecastError(_unplanned(planned))
    if isinstance(plan, CountedLag):
        return counted(plan)
    groups = groups_of(profile, plan.group_size)
    model = fit(profile, planned_baseline)
    step = model.predict(planned)
    noise = noise_sd(profile.noise)
    taught, from_baseline = teach(history, noise), apart(model, step, forecast.change, planned, planned_baseline)
    factors = taught.factors(from_baseline.touched)
    prices = stream_prices(model, step, planned, factors, plan.groups_per_step)
    sds = (part_sd(part, from_baseline, taught) for part in ("rollout", "train"))
    return raced(plan, prices, groups, log_sd=math.hypot(noise, BALANCE_SD, *sds))


def counted(plan: CountedLag) -> LagDistribution:
    """Return the distribution that a plan knows."""
    shares = [(age, share) for age, share in plan.shares if share > 0]
    mean = math.fsum(age * share for age, share in shares)
    return LagDistribution(
        mean=Estimate(value=mean, unit="updates", source=Source.FORECAST, note=KNOWN),
        shares=tuple(
            LagShare(lag=age, share=Estimate(value=share, unit="frac", source=Source.FORECAST)) for age, share in shares
        ),
    )


def raced(plan: StreamLag, prices: StreamPrices, groups: Sequence[Rows], *, log_sd: float) -> LagDistribution:
    """Return the distribution of a stream; ``log_sd`` is what the ratio of the sides is known to."""
    runs: list[Counter[int]] = []
    for number in range(NUM_RUNS):
        apart_by = log_sd * NormalDist().inv_cdf((number + 0.5) / NUM_RUNS)
        drawn = list(groups) if number == NUM_RUNS // 2 else _drawn(groups, seed=number)
        costs = prices.costs(rollout=math.exp(apart_by / 2), train=math.exp(-apart_by / 2))
        tokens = Counter[int]()
        for step in race(plan, costs, drawn, num_steps=NUM_STEPS):
            tokens.update(step.tokens_by_lag)
        runs.append(tokens)
    lags = sorted({lag for run in runs for lag in run})
    shares = {lag: [run[lag] / run.total() for run in runs] for lag in lags}
    means = [math.fsum(lag * run[lag] for lag in run) / run.total() for run in runs]
    return LagDistribution(
        mean=_estimate(means, "updates", most=float(plan.max_lag)),
        shares=tuple(LagShare(lag=lag, share=_estimate(values, "frac", most=1.0)) for lag, values in shares.items()),
        unknown=_left_open(means, plan),
    )


def groups_of(profile: Profile, group_size: int) -> list[Rows]:
    """Return the profile's groups in their order.

    Raises:
        ForecastError: it holds no lengths of single rollouts, or no whole groups of them.
    """
    lengths = profile.lengths
    if not isinstance(lengths, SampledLengths) or len(lengths.completion) < group_size:
        raise ForecastError(
            explain(
                "the ages of a stream need the lengths of single rollouts",
                got=f"lengths as `{lengths.kind}`",
                allowed=f"prompt and completion tokens of every rollout, groups of {group_size} whole",
                hint="profile the job: `steptune tune JOB --advise-only` measures them",
            )
        )
    rows = list(zip(lengths.prompt, lengths.completion, strict=True))
    return [tuple(rows[i : i + group_size]) for i in range(0, len(rows) - group_size + 1, group_size)]


def _drawn(groups: Sequence[Rows], *, seed: int) -> list[Rows]:
    """Return other groups of the same job: those logged, whole and with replacement."""
    return random.Random(seed).choices(groups, k=len(groups))


def _estimate(values: Sequence[float], unit: str, *, most: float) -> Estimate:
    mid, half = fmean(values), Z_80 * stdev(values)
    low, high = max(0.0, mid - half), min(most, mid + half)
    return Estimate(value=mid, low=min(low, mid), high=max(high, mid), unit=unit, source=Source.FORECAST, note=INTERVAL)


def _left_open(means: Sequence[float], plan: StreamLag) -> str:
    """Say where the sides are so close that the lag cannot be told."""
    if max(means) - min(means) < plan.updates_per_step / 2:
        return ""
    return (
        f"the sides are near balance: the mean age is {min(means):.2f} or {max(means):.2f} as one or the other is a "
        "little faster than forecast; a trial tells"
    )


def _unplanned(planned: PlannedWork) -> str:
    return explain(
        "nobody can tell how old the tokens will be",
        got=f"a plan with a bound of {planned.lag} updates and nothing on its queue",
        allowed="a plan that says how its queue works",
        hint="a trial measures it, as does a log with its staleness",
    )
