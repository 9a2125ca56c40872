"""All that the rollout side's time depends on: its knobs and its prices. Hashable values, to memoise on."""

from dataclasses import dataclass
from typing import Literal

from steptune.core.errors import explain
from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.curve import ForecastError

Routing = Literal["round_robin", "least_loaded", "longest_first"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutKnobs:
    """One configuration of the rollout side: ``RolloutKnobs(num_replicas=12, max_rows=64)``."""

    num_replicas: int
    devices_per_replica: int = 1
    max_rows: int | None = None
    """Rows decoding at once in a replica; None is no limit."""
    kv_tokens: int | None = None
    """Tokens a replica's cache holds; None is no limit."""
    admission: Literal["preempt", "reserve"] = "preempt"
    """A full cache throws out the newest row, which recomputes later; or a row enters only with room for its limit."""
    routing: Routing = "round_robin"
    """Which replica gets a group, whole."""
    share_prefill: bool = True
    """A group's prompt is computed once in its replica."""
    shares_cache: bool = False
    """Its rows also hold the prompt once, and a row that was thrown out finds it again while a sibling runs."""
    unfilled_tokens: int = 0
    """Tokens of a row's last cache block that stay empty, on average over its life."""
    num_env_workers: int | None = None
    """Environment calls served at once; None is no limit."""

    def __post_init__(self) -> None:
        counts = (
            self.num_replicas,
            self.devices_per_replica,
            self.max_rows,
            self.kv_tokens,
            self.num_env_workers,
        )
        if any(count is not None and count < 1 for count in counts) or self.unfilled_tokens < 0:
            raise ForecastError(
                explain(
                    "a rollout side cannot have this",
                    got=str(self),
                    allowed="counts of 1 or more, None for no limit",
                    hint="use None where there is no limit",
                )
            )

    def holds(self, positions: int) -> bool:
        """Return whether a replica's cache has room for a row so long."""
        return self.kv_tokens is None or self.kv_tokens >= positions + self.unfilled_tokens

    @property
    def num_devices(self) -> int:
        """Devices held."""
        return self.num_replicas * self.devices_per_replica


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutCosts:
    """Prices of one healthy replica."""

    decode: DecodeCurve
    prefill_base_s: float = 0.0
    """Per admission that computes anything."""
    prefill_per_token_s: float = 0.0
    slowdown: tuple[float, ...] = ()
    """Seconds of each replica over a healthy one's; those not named are healthy."""
    scale: float = 1.0
    """Everything times this: calibration, or a what-if."""

    def prefill_s(self, tokens: float) -> float:
        """Return seconds for positions computed together; none cost nothing."""
        return self.prefill_base_s + self.prefill_per_token_s * tokens if tokens > 0 else 0.0

    def factor(self, replica: int) -> float:
        """Return what a replica's seconds are multiplied with."""
        return self.scale * (self.slowdown[replica] if replica < len(self.slowdown) else 1.0)
