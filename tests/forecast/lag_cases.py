"""Small streams whose ages can be worked out by hand."""

from collections import Counter
from collections.abc import Sequence

from steptune.core.lag import StreamLag
from steptune.forecast.lag.costs import StreamCosts
from steptune.forecast.lag.race import RacedStep, race
from steptune.forecast.lag.replica import Rows

NUM_STEPS = 16


def stream(**changes: object) -> StreamLag:
    """Two groups of two rows a step, four slots, one update a step, at most one update old."""
    plain: dict[str, object] = {
        "groups_per_step": 2,
        "group_size": 2,
        "updates_per_step": 1,
        "max_lag": 1,
        "num_slots": 4,
        "num_replicas": 1,
        "routing": "in_turn",
        "takes_in_flight": False,
        "admit_frac": 1 / 16,
        "share_prefill": True,
    }
    return StreamLag.model_validate({**plain, **changes})


def costs(*, train_s: float, decode_s: float = 0.01, **changes: float) -> StreamCosts:
    """Every iteration takes as long, whatever runs."""
    rest = {"load_s": 0.0, "group_s": 0.0, "handover_s": 0.0, **changes}
    return StreamCosts(decode_s=lambda _: decode_s, prefill_s=lambda _: 0.0, train_s=train_s, **rest)


def equal_groups(num_tokens: int = 10) -> list[Rows]:
    return [((5, num_tokens), (5, num_tokens))]


def shares(steps: Sequence[RacedStep]) -> dict[int, float]:
    tokens = Counter[int]()
    for step in steps:
        tokens.update(step.tokens_by_lag)
    return {lag: tokens[lag] / tokens.total() for lag in sorted(tokens)}


def mean_lag(plan: StreamLag, prices: StreamCosts, groups: Sequence[Rows], *, num_steps: int = NUM_STEPS) -> float:
    return sum(lag * share for lag, share in shares(race(plan, prices, groups, num_steps=num_steps)).items())
