"""Arms of `decode_rows` that ask `aiconfigurator-core`: its raw seconds, and its ratios on the scale of three points.

Precisions are those that the sample's own columns name; where a kernel of that name has no data the checkpoint's are
tried. Raw answers see no point, as a user would get them; the version of the engine is the package's maintained one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from decode_rows_arms import layout_of, work_of
from decode_rows_data import Config, Group, Measured, quant_modes
from steptune.core.errors import StepTuneError
from steptune.forecast.decode.aiconfigurator import AicEngine, open_engine, raw_s

Precision = tuple[str | None, str | None]


@dataclass
class AicArms:
    """Both arms, every answer kept."""

    known: dict[tuple[Group, Config], float | None] = field(default_factory=dict)
    engines: dict[Group, list[AicEngine]] = field(default_factory=dict)
    modes: dict[Group, Precision] = field(default_factory=quant_modes)

    def raw(self, group: Group, points: Sequence[Measured], config: Config) -> float | None:
        """Return the package's seconds."""
        key = (group, config)
        if key not in self.known:
            self.known[key] = self._ask(group, config)
        return self.known[key]

    def scaled(self, group: Group, points: Sequence[Measured], config: Config) -> float | None:
        """Return the package's ratio to the points, on their scale."""
        raw = self.raw(group, points, config)
        at_points = [(p.seconds, self.raw(group, points, p.config)) for p in points]
        scales = [seconds / own for seconds, own in at_points if own is not None]
        if raw is None or not scales:
            return None
        product = 1.0
        for scale in scales:
            product *= scale
        return raw * product ** (1 / len(scales))

    def _ask(self, group: Group, config: Config) -> float | None:
        for engine in self._engines(group):
            try:
                return raw_s(engine, layout_of(group, config), work_of(config))
            except StepTuneError:
                continue
        return None

    def _engines(self, group: Group) -> list[AicEngine]:
        if group not in self.engines:
            self.engines[group] = []
            for products, experts in dict.fromkeys([self.modes[group], (None, None)]):
                try:
                    made = open_engine(
                        model=group.model,
                        device=group.device.upper(),
                        engine=group.engine,
                        products=products,
                        experts=experts,
                    )
                except StepTuneError:
                    continue
                self.engines[group].append(made)
        return self.engines[group]
