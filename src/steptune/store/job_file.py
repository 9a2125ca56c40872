"""Reads a job file into a JobSpec, or says everything that is wrong with it in one report.

::

    TOML -> overrides (`--set`) -> algorithm defaults -> types and ranges -> combinations -> model folder

Surprise: TOML has no null, so a pinned knob is switched off by the text ``"off"``.
"""

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from steptune.core.errors import JobError, explain
from steptune.core.job import AlgorithmSpec, JobSpec
from steptune.core.model import ModelSpec
from steptune.core.pretrained import HfModel
from steptune.store.job_checks import impossible
from steptune.store.job_mistakes import Mistake, not_json, sentences
from steptune.store.named_model import named_model
from steptune.store.overrides import Table, apply_override

OFF = "off"
"""How a job file spells None in `knobs.pin`."""

DAPO_DEFAULTS: Table = {"loss_aggregation": "token_mean", "clip_high": 0.28, "dynamic_sampling": True}
"""What `kind = "dapo"` means where the file is silent (DAPO section 4.1, https://arxiv.org/abs/2503.14476)."""

DR_GRPO_DEFAULTS: Table = {"loss_aggregation": "seq_mean_token_sum_norm", "scale_advantage": "none"}
"""What `kind = "dr_grpo"` means where the file is silent (section 3.2 of https://arxiv.org/abs/2503.20783)."""

DAPO_OVERLONG_FRAC = 0.2
"""Soft punishment zone / length limit: 4096 of 20480 tokens in DAPO section 4.1."""


FindModel = Callable[[HfModel], ModelSpec]
"""Looks at a model folder and returns its shape, weights and vocabulary told."""


def load_job(path: Path, overrides: Sequence[str] = (), *, find_model: FindModel | None = None) -> JobSpec:
    """Read the job at ``path`` with ``a.b=value`` overrides applied on top, in order.

    Values of overrides are TOML; a bare word is taken as text. ``find_model`` is asked for the model of a job that
    names a folder, once the rest of the job is known to be sound.

    Raises:
        JobError: the file cannot be read, or the job asks for something that cannot be. One message lists
            every mistake found.
        ModelError: the folder cannot be used.
    """
    raw = _read_toml(path)
    overridden = {apply_override(raw, text) for text in overrides}
    _fill_defaults_of_kind(raw)
    _spell_off(raw)
    wanted, wrong = named_model(raw, path.parent)
    if wanted is not None or wrong:
        raw = {key: value for key, value in raw.items() if key != "model"}
    job, mistakes = _resolve(raw, has_folder=wanted is not None)
    if job is None or mistakes or wrong:
        raise JobError(_report([*wrong, *mistakes], path, overridden))
    if wanted is None:
        return job
    assert find_model is not None, "a command that reads jobs can find their models"
    return job.model_copy(update={"model": find_model(wanted)})


def _resolve(raw: Table, *, has_folder: bool) -> tuple[JobSpec | None, list[Mistake]]:
    """Return the job and what is wrong; combinations are checked around the keys that are wrong by themselves."""
    mistakes = not_json(raw)
    job = None
    try:
        job = _validated(_without(raw, mistakes))
    except ValidationError as error:
        bad = {m.loc for m in mistakes}
        mistakes += [m for m in sentences(JobSpec, error) if m.loc not in bad]
        try:
            job = _validated({"name": "unnamed", **_without(raw, mistakes)})
        except ValidationError:
            return None, mistakes
    wrong = {".".join(map(str, m.loc)) for m in mistakes}
    return job, [*mistakes, *(m for m in impossible(job, has_folder=has_folder) if not wrong & set(m.keys))]


def _validated(raw: Table) -> JobSpec:
    return JobSpec.model_validate_json(json.dumps(raw), strict=True)


def _read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        hint = "check the path; `examples/math-dense.toml` is a job to start from"
        raise JobError(
            explain(f"cannot read job file `{path}`", got=error.strerror, allowed="a readable TOML file", hint=hint)
        ) from error
    except UnicodeDecodeError as error:
        got = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise JobError(
            explain(f"`{path}` is not UTF-8 text", got=got, allowed="UTF-8", hint="save the file as UTF-8")
        ) from error
    except (ValueError, RecursionError) as error:
        twice = any(word in str(error) for word in ("overwrite", "twice", "Duplicate"))
        hint = "a key or table stands twice; keep one" if twice else "look at that line; text needs quotes"
        raise JobError(explain(f"`{path}` is not valid TOML", got=error, allowed="TOML 1.0", hint=hint)) from error


def _fill_defaults_of_kind(raw: Table) -> None:
    algorithm = raw.get("algorithm")
    if not isinstance(algorithm, dict):
        return
    match algorithm.get("kind"):
        case "dapo":
            raw["algorithm"] = {**DAPO_DEFAULTS, **_overlong(algorithm), **algorithm}
        case "dr_grpo":
            raw["algorithm"] = {**DR_GRPO_DEFAULTS, **algorithm}
        case _:
            pass


def _overlong(algorithm: Table) -> Table:
    limit = algorithm.get("max_completion_len", AlgorithmSpec.model_fields["max_completion_len"].default)
    return {"overlong_buffer_len": int(limit * DAPO_OVERLONG_FRAC)} if isinstance(limit, int) and limit > 0 else {}


def _spell_off(raw: Table) -> None:
    knobs = raw.get("knobs")
    if isinstance(knobs, dict) and isinstance(pin := knobs.get("pin"), dict):
        raw["knobs"] = {**knobs, "pin": {knob: None if value == OFF else value for knob, value in pin.items()}}


def _without(raw: Table, mistakes: Sequence[Mistake]) -> Table:
    """Return a copy of ``raw`` that lacks the keys ``mistakes`` name (a bad list element takes its list along)."""
    return _pruned(raw, {m.table_keys for m in mistakes}, ())


def _pruned(table: Table, bad: set[tuple[str, ...]], above: tuple[str, ...]) -> Table:
    kept: Table = {}
    for key, value in table.items():
        here = (*above, key)
        if here not in bad:
            kept[key] = _pruned(value, bad, here) if isinstance(value, dict) else value
    return kept


def _report(mistakes: Sequence[Mistake], path: Path, overridden: set[str]) -> str:
    lines = [m.sentence(f"`{path}`", overridden) for m in mistakes]
    if len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} mistakes in `{path}`:", *(f"- {line}" for line in lines)])
