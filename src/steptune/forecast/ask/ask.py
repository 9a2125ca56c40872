r"""One question to the step model about one log.

::

    paste --> seconds per side --.
      |                           +--> prices --> the asked configuration --> step, roles, lag
      '--> layout, facts ---------'         \--> each prior at its alternatives --> interval

The surprise: the answer is the measured step times a forecast *ratio*. The configuration of the log itself is
therefore answered with exactly what was measured and as measured, and what both runs share does not widen the interval.
"""

import math

from steptune.core.estimate import Estimate, Source
from steptune.core.paste import Paste
from steptune.core.phase import Role
from steptune.forecast.ask.answer import Configuration, Ranked, RoleSeconds, StepAnswer
from steptune.forecast.ask.choose import MOST_STRETCH, Choice, choose, counts_of, stretch, table
from steptune.forecast.ask.facts import work_facts
from steptune.forecast.ask.lag_shares import lag_shares
from steptune.forecast.ask.layout import Layout, layout_of
from steptune.forecast.ask.measured import Measured, measured_of
from steptune.forecast.ask.measured_roles import measured_roles
from steptune.forecast.ask.priced import grain_of, priced
from steptune.forecast.ask.question import Question
from steptune.forecast.ask.spread import spread_of
from steptune.forecast.ask.used import CANNOT_KNOW, FITTED, unknowns, used
from steptune.forecast.cluster.sides import Cluster
from steptune.forecast.cluster.step import StepForecast, forecast_step, step_seconds
from steptune.forecast.interval import Z_80

NOTE_80 = "80 % interval"
"""An Estimate's interval is 95 % unless it says otherwise."""

Z_95 = 1.959963984540054
"""Standard normal quantile that leaves 2.5 % on each side: what a log's own interval is made of."""


def ask(paste: Paste, question: Question) -> StepAnswer:
    """Answer.

    Raises:
        ForecastError: the log lacks what the answer rests on, or the question cannot be met; the message says which.
    """
    profile, measured = measured_of(paste)
    layout = layout_of(paste, profile, question)
    facts = work_facts(profile, question.given)
    values = {name: fact.value for name, fact in facts.items()}
    grain = grain_of(layout, values, question.changed, counts_of(question))
    prices = priced(layout, measured, values, question.changed, grain)
    base_s = step_seconds(prices.base, prices.cluster)
    ranked = table(layout, grain, prices, question) if question.wants_sweep else ()
    choice = ranked[0] if ranked else choose(layout, grain, prices, question)
    spread = spread_of(layout, measured, facts, question.changed, grain, prices, choice.cluster)
    made = forecast_step(prices.asked, choice.cluster)
    anchor = measured.step.value / base_s
    is_same = choice.cluster == prices.cluster and not question.changed
    ratio = made.step_s / base_s
    roles = measured_roles(profile) if is_same else _roles(made, anchor)
    wait = next((role.idle for role in roles if role.role is Role.TRAINER), _plain(0.0, "s"))
    listed = used(paste, layout, measured, facts, prices)
    return StepAnswer(
        question=_in_words(question, layout),
        framework=paste.framework,
        measured_configuration=_configuration(prices.cluster),
        measured=measured.step,
        configuration=_configuration(choice.cluster),
        step_time=measured.step if is_same else _step(measured.step, ratio, spread.log_sd),
        ratio=_ITSELF if is_same else _forecast(ratio, "x", spread.log_sd),
        roles=roles,
        exposed_wait=wait.model_copy(update={"note": _WAIT_NOTE}) if choice.cluster.is_colocated else wait,
        lag=lag_shares(made, prices.asked, choice.cluster, spread.log_sd),
        dropped=_plain(made.dropped_frac, "frac"),
        parameters=listed,
        num_free_parameters=sum(p.value.source is Source.MEASURED and p.name in FITTED for p in listed),
        unknown=unknowns(paste, layout, facts, spread),
        cannot_know=CANNOT_KNOW,
        ranking=tuple(
            _measured_row(row, measured.step)
            if row.cluster == prices.cluster and not question.changed
            else _ranked(row, prices.cluster, anchor, base_s)
            for row in ranked
        ),
        is_proven=choice.is_proven,
        notes=_notes(layout, measured, base_s, stretch(layout, prices, choice.cluster)),
    )


_WAIT_NOTE = "the other side has the devices"


def _roles(made: StepForecast, anchor: float) -> tuple[RoleSeconds, ...]:
    roles: list[RoleSeconds] = []
    for role, idle_s in made.idle.items():
        phases = {phase: s * anchor for (r, phase), s in made.phases.items() if r is role and s > 0}
        roles.append(
            RoleSeconds(
                role=role,
                phases={phase: _plain(s, "s") for phase, s in phases.items()},
                busy=_plain(math.fsum(phases.values()), "s"),
                idle=_plain(max(idle_s * anchor, 0.0), "s"),
            )
        )
    return tuple(roles)


_ITSELF = Estimate(value=1.0, unit="x", source=Source.MEASURED, note="the measured configuration itself")
"""Ratio of the measured step to itself: nothing was forecast, so there is no interval."""


def _measured_row(row: Choice, step: Estimate) -> Ranked:
    return Ranked(configuration=_configuration(row.cluster), step_time=step, ratio=_ITSELF, device_ratio=_ITSELF)


def _ranked(row: Choice, measured: Cluster, anchor: float, base_s: float) -> Ranked:
    ratio = row.step_s / base_s
    devices = row.cluster.num_devices / measured.num_devices
    note = "ask for it alone for its interval"
    return Ranked(
        configuration=_configuration(row.cluster),
        step_time=_plain(row.step_s * anchor, "s", note=note),
        ratio=_plain(ratio, "x", note=note),
        device_ratio=_plain(ratio * devices, "x", note=note),
    )


def _configuration(cluster: Cluster) -> Configuration:
    return Configuration(
        num_devices=cluster.num_devices,
        train_devices=cluster.train.num_devices,
        rollout_devices=cluster.rollout.num_devices,
        shares_devices=cluster.is_colocated,
        schedule="async" if cluster.queue.schedule == "async" else "sync",
        max_lag=cluster.queue.max_lag,
    )


def _step(measured: Estimate, ratio: float, log_sd: float) -> Estimate:
    """Return the measured step times the ratio; the log's own interval widens the forecast's."""
    own_sd = 0.0
    if measured.low is not None and measured.high is not None and measured.low > 0:
        own_sd = math.log(measured.high / measured.low) / 2 / Z_95
    return _forecast(measured.value * ratio, "s", math.hypot(log_sd, own_sd))


def _forecast(value: float, unit: str, log_sd: float) -> Estimate:
    spread = math.exp(Z_80 * log_sd)
    return Estimate(
        value=value, low=value / spread, high=value * spread, unit=unit, source=Source.FORECAST, note=NOTE_80
    )


def _plain(value: float, unit: str, *, note: str = "") -> Estimate:
    return Estimate(value=value, unit=unit, source=Source.FORECAST, note=note)


def _notes(layout: Layout, measured: Measured, base_s: float, stretched: float) -> tuple[str, ...]:
    off = base_s / measured.step.value
    notes: list[str] = []
    if layout.max_lag:
        notes.append(f"at the measured configuration the model's own step is {off:.2f} x the measured one")
    if stretched > MOST_STRETCH:
        notes.append(f"{stretched:.1f} times the measured work per device: beyond what the priors were seen at")
    if measured.step.n == 1:
        notes.append("one step was read: how much steps differ is not in the interval")
    return tuple(notes)


def _updates(count: int) -> str:
    return f"{count} update" if count == 1 else f"{count} updates"


def _in_words(question: Question, layout: Layout) -> str:
    count = question.devices or layout.num_devices
    changed = [f"{name} {value:g}" for name, value in question.changed.items()]
    meets = "" if question.max_lag is None else f"asynchronous, samples at most {_updates(question.max_lag)} behind"
    split = "" if question.split is None else f"{question.split[0]} devices training, {question.split[1]} generating"
    how = ", ".join(part for part in (split, meets, *changed) if part)
    if question.wants_sweep:
        return f"which configuration of up to {count} devices is fastest" + (f": {how}" if how else "")
    if question.wants_fewest:
        return "the fewest devices that keep the measured step time" + (f": {how}" if how else "")
    on = "" if question.split else f"the same job on {count} devices"
    return ", ".join(part for part in (on, how) if part)
