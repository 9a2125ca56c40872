"""Ratios between layouts out of `aiconfigurator-core`, an optional extra with kernel times of many devices.

Its raw seconds are far off more often than not (a median of about a fifth); what it knows is how one layout compares
with another. So a raw answer is only ever used as a ratio to what it says of configurations that the job measured.

Two traps: asked for a model that it does not ship it would download a configuration, so names are checked first; and
listing its versions parses over 200 YAML files, so the maintained version is asked for by name and every engine and
layout is kept (`open_engine`, `_model`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import Any, Literal, final

from steptune.core.errors import explain, nearest
from steptune.core.estimate import Estimate, Source
from steptune.footprint.layout import RolloutLayout
from steptune.forecast.curve import ForecastError
from steptune.forecast.decode.forecast import Z_80, DecodePoint
from steptune.forecast.decode.terms import Workload
from steptune.hardware.devices import named_device
from steptune.shapes.registry import find_model

DISTRIBUTION = "aiconfigurator-core"
SYSTEMS = {
    "H100": "h100_sxm",
    "H100 PCIe": "h100_pcie",
    "H200": "h200_sxm",
    "B200": "b200_sxm",
    "B300": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
    "A100": "a100_sxm",
    "L40S": "l40s",
    "RTX PRO 6000": "rtx_pro_6000_server",
}
"""Names of this project's devices in the package (its `systems` folder, 0.12.0)."""

ENGINES = ("vllm", "sglang", "trtllm")
MODES = ("SILICON", "HYBRID")
"""Measured kernels alone, then measured with formulas where a shape is missing: the first that answers."""

ATTENTION = (None, "bfloat16")
"""Precisions of the attention kernel: as the checkpoint suggests, then bf16, which was measured where fp8 was not."""

RATIO_LOG_SD = 0.17
"""Standard deviation of the log of a scaled answer with which four in five rows are inside, on the half of the
groups of `bench/decode_rows.py` that priors are fitted on (0.12.0)."""

MEASURE = "measure the time between tokens at three numbers of sequences in this layout; the built-in model takes these"

Kind = Literal["step", "prefill"]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AicEngine:
    """One engine in the package's tables: make it with `open_engine`."""

    model: str
    """Path of the model as the package spells it."""
    system: str
    engine: str
    version: str
    """Of the engine whose kernels were measured."""
    products: str | None
    experts: str | None


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ScaledAic:
    """The package's ratios on a job's own scale."""

    engine: AicEngine
    kind: Kind
    points: tuple[DecodePoint, ...]
    log_scale: float

    def seconds(self, layout: RolloutLayout, work: Workload) -> Estimate:
        """Return the seconds of what the points measured, with an 80 % interval.

        Raises:
            ForecastError: the package has no data for it.
        """
        seconds = raw_s(self.engine, layout, work, kind=self.kind) * math.exp(self.log_scale)
        half = Z_80 * RATIO_LOG_SD
        return Estimate(
            value=seconds,
            low=seconds * math.exp(-half),
            high=seconds * math.exp(half),
            unit="s",
            source=Source.FORECAST,
            note=f"80 %; ratio by {DISTRIBUTION} {package_version()}, scale by {len(self.points)} measured points",
        )


def package_version() -> str | None:
    """Return the installed version; None where the extra is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def open_engine(
    *, model: str, device: str, engine: str, products: str | None = None, experts: str | None = None
) -> AicEngine:
    """Return an engine of the package; ``products`` and ``experts`` are its names of precisions, None the checkpoint's.

    Raises:
        ForecastError: the extra is not installed, or the package does not know engine, device or model.
        DeviceError: nobody knows the device.
    """
    if package_version() is None:
        raise _refused(
            "the package is not installed", DISTRIBUTION, "it installed", "pip install 'steptune[aiconfigurator]'"
        )
    if engine not in ENGINES:
        raise _refused("the engine has no data", f"`{engine}`", ", ".join(ENGINES), nearest(engine, ENGINES))
    name = named_device(device).name
    if name not in SYSTEMS:
        raise _refused("the device has no data", f"`{name}`", ", ".join(sorted(SYSTEMS)), MEASURE)
    database = _module("perf_database")
    return AicEngine(
        model=_model_path(model),
        system=SYSTEMS[name],
        engine=engine,
        version=str(database.resolve_query_version(SYSTEMS[name], engine, "current")),
        products=products,
        experts=experts,
    )


def scaled(engine: AicEngine, points: Sequence[DecodePoint], *, kind: Kind = "step") -> ScaledAic:
    """Return the package's ratios on the scale of the measured points (the mean of the log of measured over raw).

    With ``prefill`` the points' seconds are those to the first token.

    Raises:
        ForecastError: there is no point, or the package has no data for one.
    """
    if not points:
        raise _refused("there is nothing to scale by", "no measured point", "one or more", MEASURE)
    logs = [math.log(point.seconds / raw_s(engine, point.layout, point.work, kind=kind)) for point in points]
    return ScaledAic(engine=engine, kind=kind, points=tuple(points), log_scale=math.fsum(logs) / len(logs))


def raw_s(engine: AicEngine, layout: RolloutLayout, work: Workload, *, kind: Kind = "step") -> float:
    """Return the package's own seconds: between two tokens, or to the first token of a prompt (``prefill``).

    Raises:
        ForecastError: it has no data for it, in either mode.
    """
    reasons: list[str] = []
    for mode, attention in product(MODES, ATTENTION):
        try:
            seconds = _ask(engine, layout, work, mode, attention)[kind]
        except (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reasons.append(str(error).split("\n", 1)[0][:160])
            continue
        if math.isfinite(seconds) and seconds > 0:
            return seconds
        reasons.append(f"{seconds} s")
    raise _refused(
        f"no data for `{engine.model}` on {engine.system} with {engine.engine}",
        f"tensor {layout.tensor}, data {layout.data}, expert {layout.expert}: {reasons[-1]}",
        "a layout and precision whose kernels were measured",
        MEASURE,
    )


def _ask(
    engine: AicEngine, layout: RolloutLayout, work: Workload, mode: str, attention: str | None
) -> dict[Kind, float]:
    model, backend = _model(engine, layout.tensor, layout.pipeline, layout.data, layout.expert, attention)
    database = _database(engine.system, engine.engine, engine.version, mode)
    if database is None:
        raise LookupError(f"no tables of {engine.engine} {engine.version} on {engine.system}")
    config = _module("config").RuntimeConfig(
        batch_size=math.ceil(work.rows / layout.data), isl=max(1, round(work.prompt)), osl=max(2, round(work.answer))
    )
    frame = backend.run_agg(model, database, config, ctx_tokens=config.isl).get_summary_df()
    return {"step": float(frame["tpot"].iloc[0]) / 1e3, "prefill": float(frame["ttft"].iloc[0]) / 1e3}


@cache
def _database(system: str, engine: str, engine_version: str, mode: str) -> Any:  # noqa: ANN401
    return _module("perf_database").get_database_view(system, engine, engine_version, database_mode=mode)


@cache
def _model(engine: AicEngine, tensor: int, pipeline: int, data: int, expert: int, attention: str | None) -> Any:  # noqa: ANN401
    shards = tensor * data // expert if expert <= tensor * data else 1
    made = _module("config_builders").build_model_config(
        tensor,
        pipeline,
        data,
        shards,
        expert,
        gemm_quant_mode=engine.products,
        moe_quant_mode=engine.experts,
        fmha_quant_mode=attention,
    )
    model = _module("models").get_model(engine.model, made, engine.engine)
    return model, _module("backends.factory").get_backend(engine.engine)


def _model_path(name: str) -> str:
    """Return the package's spelling of a model: the same name, or a plain one of the same shape."""
    paths: list[str] = sorted(_module("common").DefaultHFModels, key=lambda path: (len(path), path))
    last = name.rstrip("/").rsplit("/", 1)[-1].lower()
    same = [path for path in paths if path.rsplit("/", 1)[-1].lower() == last]
    known = find_model(name)
    if not same and known is not None:
        same = [path for path in paths if find_model(path) == known]
    if not same:
        names = [path.rsplit("/", 1)[-1].lower() for path in paths]
        raise _refused(
            "the model has no data",
            f"`{name}`",
            f"one of {len(paths)} models",
            f"{nearest(last, names)[:200]}; {MEASURE}",
        )
    return same[0]


def _module(name: str) -> Any:  # noqa: ANN401
    return import_module(f"aiconfigurator_core.sdk.{name}")


def _refused(what: str, got: str, allowed: str, hint: str) -> ForecastError:
    return ForecastError(explain(f"{DISTRIBUTION}: {what}", got=got, allowed=allowed, hint=hint))
