"""Measured decode rows of the installed `aiconfigurator-core`, one a configuration, and the three a job would have.

The rows are read from the installed package (`systems/silicon_sample.csv`, Apache-2.0) and never copied. Everything
here was fixed before any error was looked at. The surprises, each found in the rows themselves:

* The importer of the sample multiplied "8 devices, experts over 8" to 64 devices in some of its files: 79 measured
  values stand twice, under `8, 1, 8` and under `64, 8, 8`. `layout_of` undoes it.
* DeepSeek-R1 and V3 share 185 measured values: one model.
* Rows of DeepSeek on GB200 with 12 to 72 devices and no expert parallelism are disaggregated runs: such a degree does
  not divide its 128 heads. They are refused, and counted as refused.
"""

import csv
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

PACKAGE = "aiconfigurator_core"
SAMPLE = "systems/silicon_sample.csv"
ALIASES = {"DeepSeek-V3": "DeepSeek-R1", "DeepSeek-V3.1-NVFP4": "DeepSeek-R1", "DeepSeek-R1-NVFP4": "DeepSeek-R1"}
"""Names of one shape, by the last part of the path."""
BY_NAME = {"Llama-3.1-8B-Instruct-FP8": "Llama-3.1-8B-Instruct", "Qwen3-32B-NVFP4": "Qwen3-32B"}
"""Quantised uploads: the precision stands in its own column."""
HEADS = {"DeepSeek-R1": 128}
"""Attention heads of models whose rows hold impossible degrees."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Layout:
    """``Layout(tensor=8, data=1, expert=8)``: devices are tensor x data."""

    tensor: int
    data: int
    """Ranks that attend to rows of their own and share the experts."""
    expert: int

    @property
    def devices(self) -> int:
        """Devices of one engine."""
        return self.tensor * self.data


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Config:
    """What was run: sequences at once in one engine, prompt and answer tokens, layout."""

    rows: int
    prompt: int
    answer: int
    layout: Layout

    @property
    def context(self) -> float:
        """Mean keys that a row attends to."""
        return self.prompt + self.answer / 2


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Group:
    """``Group(engine="vllm", device="h100", model="gpt-oss-120b", precision="fp4")``."""

    engine: str
    device: str
    model: str
    precision: str

    @property
    def is_fit(self) -> bool:
        """Whether priors may be fitted on it: the parity of a hash of its name."""
        name = "|".join((self.engine, self.device, self.model, self.precision))
        return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One configuration: the median of its distinct measured values."""

    config: Config
    seconds: float
    """Between two tokens of one sequence, prefills of others included."""
    repeats: tuple[float, ...]
    """Distinct measured values: other dates and versions of the engine."""


def package_folder() -> Path:
    """Return the folder of the installed package; SystemExit with what to install where there is none."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the rows are read from the installed package: pip install 'steptune[aiconfigurator]'")
    return Path(next(iter(spec.submodule_search_locations)))


def read_rows(folder: Path) -> tuple[dict[Group, list[Measured]], dict[Group, int]]:
    """Return the aggregated rows by group, one a configuration, and how many were refused as impossible."""
    found: dict[Group, dict[Config, set[float]]] = defaultdict(lambda: defaultdict(set))
    refused: dict[Group, set[tuple[str, ...]]] = defaultdict(set)
    with (folder / SAMPLE).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["mode"] != "agg":
                continue
            group = group_of(row)
            config = config_of(row, group)
            if config is None:
                refused[group].add((row["isl"], row["osl"], row["tp_size"], row["silicon_data_source"]))
            else:
                found[group][config].add(float(row["silicon_tpot_ms"]) / 1e3)
    return (
        {group: [_measured(c, v) for c, v in sorted(own.items())] for group, own in sorted(found.items())},
        {group: len(own) for group, own in sorted(refused.items())},
    )


def quant_modes() -> dict[Group, tuple[str | None, str | None]]:
    """Return the commonest names of the precisions of products and experts by group, as the sample states them."""
    found: dict[Group, Counter[tuple[str | None, str | None]]] = defaultdict(Counter)
    with (package_folder() / SAMPLE).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[group_of(row)][row["gemm_quant_mode"] or None, row["moe_quant_mode"] or None] += 1
    return {group: modes.most_common(1)[0][0] for group, modes in found.items()}


def group_of(row: dict[str, str]) -> Group:
    """Return the group of a row; an empty precision is the model's own bf16."""
    model = row["model_path"].rsplit("/", 1)[-1]
    model = BY_NAME.get(model, ALIASES.get(model, model))
    device = row["system"].removesuffix("_sxm")
    return Group(engine=row["backend"], device=device, model=model, precision=row["precision"] or "bf16")


def config_of(row: dict[str, str], group: Group) -> Config | None:
    """Return the configuration of a row; None where its degree cannot be."""
    concurrency = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
    batch = int(row["batch_size"])
    at_once = int(concurrency.group(1)) if concurrency else None
    is_sparse = max(_count(row["moe_tp_size"]), _count(row["moe_ep_size"])) > 1
    layout = layout_of(row, ways=(at_once // batch if at_once else 1) if is_sparse else 1)
    if HEADS.get(group.model, layout.tensor) % layout.tensor:
        return None
    if at_once is None:
        rows = batch * layout.data
    elif not is_sparse and at_once != batch:  # copies of a dense engine: the batch is one's
        rows = batch
    else:
        rows = at_once
    return Config(rows=rows, prompt=int(row["isl"]), answer=int(row["osl"]), layout=layout)


def layout_of(row: dict[str, str], *, ways: int) -> Layout:
    """Return the layout; ``ways`` is concurrency over batch, which tells divided attention where no column does."""
    tensor, data = _count(row["tp_size"]), _count(row["attention_dp_size"])
    moe_tensor, expert = _count(row["moe_tp_size"]), _count(row["moe_ep_size"])
    has_label = "epnone" not in row["id"]
    if has_label and moe_tensor == expert > 1:  # 8 devices, experts over 8, written as 64
        devices, is_divided = expert, data > 1
    elif tensor == data > 1 and expert == tensor * data:  # vLLM: the devices stand in both columns
        devices, is_divided = data, True
    elif moe_tensor * expert > tensor * data:  # two attention ranks and no column for them
        return Layout(tensor=tensor, data=moe_tensor * expert // tensor, expert=expert)
    else:
        devices, is_divided = tensor * data, data > 1 or ways == tensor * data > 1
    return Layout(tensor=1 if is_divided else devices, data=devices if is_divided else 1, expert=min(expert, devices))


def three_points(rows: Sequence[Measured]) -> tuple[Measured, Measured, Measured] | None:
    """Return the lowest, middle and highest concurrency of the home layout; None where it has fewer than two.

    Home is the layout with most configurations (then the fewest devices): what a job runs in. Its configurations are
    sorted by (concurrency, mean context): the first, the middle and the last one are the points.
    """
    layouts: dict[Layout, list[Measured]] = defaultdict(list)
    for row in rows:
        layouts[row.config.layout].append(row)
    home = min(layouts, key=lambda one: (-len(layouts[one]), one.devices, one))
    own = sorted(layouts[home], key=lambda row: (row.config.rows, row.config.context, row.config))
    if len(own) < 3 or own[0].config.rows == own[-1].config.rows:
        return None
    return own[0], own[len(own) // 2], own[-1]


def _measured(config: Config, values: set[float]) -> Measured:
    distinct: list[float] = []
    for value in sorted(values):
        if not distinct or value > distinct[-1] * 1.0001:  # one value in two roundings
            distinct.append(value)
    return Measured(config=config, seconds=median(distinct), repeats=tuple(distinct))


def _count(text: str) -> int:
    return int(text) if text and int(text) > 0 else 1
