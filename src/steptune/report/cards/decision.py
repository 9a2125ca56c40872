"""First screen: what leaves the tool, how much faster it is, on what evidence, and what that cost."""

from collections.abc import Sequence

from steptune.core.decision import Decision
from steptune.core.estimate import Estimate
from steptune.core.job import Objective
from steptune.core.verdict import Judgement, Verdict
from steptune.report.blocks import Block, Cell, Figure, Figures, Table, Text, Tone, Words
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, knob, muted, number, outcome, words
from steptune.report.limits_kept import LimitKept, limits_kept
from steptune.report.not_shown import not_shown, open_reward
from steptune.report.numbers import derived, detail_text, estimate_text, main_text
from steptune.report.objective_rows import objectives
from steptune.report.saving import expected_saving
from steptune.report.session_view import SessionView
from steptune.report.stage_costs import total_cost

KEPT = {
    Judgement.PASS: Words(text="kept", tone=Tone.GOOD),
    Judgement.FAIL: Words(text="broken", tone=Tone.BAD),
    Judgement.INCONCLUSIVE: Words(text="not settled", tone=Tone.UNSURE),
}
"""A limit's judgement in the owner's words."""


def card(view: SessionView) -> Shown | NotApplicable:
    """Show the decision, or why there is none."""
    if view.last_kind is None:
        return NotApplicable(why="session not finished: the journal is empty")
    if view.decision is None:
        return _unfinished(view)
    return Shown(takeaway=takeaway(view, view.decision), blocks=_blocks(view, view.decision))


def takeaway(view: SessionView, decision: Decision) -> str:
    """Return the session in one line, claiming no more than the decision does."""
    over = f"the {view.started.job.baseline} baseline" if view.started else "the baseline"
    if not view.is_change_out:
        outcome_text = decision.outcome.replace("_", " ")
        tried = f"; the candidate ran at {estimate_text(decision.speedup)} its speed" if decision.speedup else ""
        return f"{outcome_text}: {over} is handed back{tried}"
    if decision.speedup is None:
        return f"{decision.outcome}, with no confirmed speed-up over {over}"
    gain, detail = main_text(decision.speedup), detail_text(decision.speedup)
    open_part = ", reward not shown" if open_reward(decision.verdicts) else ""
    if _counts_devices(view):
        return f"{decision.outcome}{open_part}: {over} takes {gain} the device-seconds per step ({detail})"
    return f"{decision.outcome}{open_part}: {gain} the speed of {over} ({detail})"


def _unfinished(view: SessionView) -> Shown:
    wall, device = total_cost(view)
    figures = (
        Figure(label="outcome", cell=Words(text="none", detail="no decision in the journal", tone=Tone.UNSURE)),
        Figure(label="trials with a result", cell=_count(len(view.trial_ends), "trials")),
        Figure(label="trials cut short", cell=_count(len(view.killed_trials), "trials")),
        Figure(label="wall time so far", cell=number(wall)),
        Figure(label="device time so far", cell=number(device)),
    )
    return Shown(takeaway=f"session not finished: {view.unfinished_because}", blocks=(Figures(figures=figures),))


def _blocks(view: SessionView, decision: Decision) -> tuple[Block, ...]:
    limits = limits_kept(view)
    blocks: list[Block] = [Figures(figures=_figures(view, decision, limits))]
    left_open = not_shown(view, decision.verdicts) if view.is_change_out else ()
    if left_open:
        blocks.append(Text(heading="Not shown", lines=left_open))
    blocks += objectives(view)
    blocks.append(_configuration(view, decision))
    if limits:
        blocks.append(_limits(limits))
    if decision.reasons:
        blocks.append(Text(heading="Why", lines=decision.reasons))
    if view.ended is None:
        blocks.append(Text(lines=("the journal holds a decision but not the end of the session",)))
    return tuple(blocks)


def _figures(view: SessionView, decision: Decision, limits: Sequence[LimitKept]) -> tuple[Figure, ...]:
    over = view.started.job.baseline if view.started else "baseline"
    wall, device = total_cost(view)
    best = decision.speedup_over_best_practice
    whose = "" if view.is_change_out else "candidate: "
    figures = [
        Figure(label="outcome", cell=outcome(decision.outcome)),
        Figure(label=f"{whose}{_gain(view)} {over}", cell=number(decision.speedup, missing="none confirmed")),
        Figure(label=f"{whose}{_gain(view)} best practice", cell=number(best, missing="not measured")),
        Figure(label=f"{whose}same, natural lengths", cell=number(_raw_speedup(view))),
        Figure(label=f"{whose}guards", cell=guards_summary(decision.verdicts)),
        Figure(label="limits", cell=_limits_summary(limits)),
        Figure(label="tuning, wall time", cell=number(wall)),
        Figure(label="tuning, device time", cell=number(device)),
        Figure(label="paid for itself", cell=break_even(view, decision)),
        Figure(label="expected saving", cell=expected_saving(view, decision)),
    ]
    return tuple(figures)


def _counts_devices(view: SessionView) -> bool:
    return view.started is not None and view.started.job.objective is Objective.DEVICE_SECONDS_PER_STEP


def _gain(view: SessionView) -> str:
    return "fewer device-seconds than" if _counts_devices(view) else "speed over"


def guards_summary(verdicts: Sequence[Verdict]) -> Cell:
    """Return how many guards said what; the worst answer sets the tone and names its guards."""
    if not verdicts:
        return muted("no guard ran")
    said = [verdict.judgement for verdict in verdicts]
    counts = ", ".join(f"{said.count(value)} {value}" for value in Judgement if value in said)
    for worst, tone in ((Judgement.FAIL, Tone.BAD), (Judgement.INCONCLUSIVE, Tone.UNSURE)):
        named = ", ".join(verdict.guard for verdict in verdicts if verdict.judgement is worst)
        if named:
            return Words(text=counts, detail=f"{worst}: {named}", tone=tone)
    return Words(text=counts, detail="verdicts of this session", tone=Tone.GOOD)


def break_even(view: SessionView, decision: Decision) -> Cell:
    """Return the step at which tuning has paid for itself."""
    if not view.is_change_out:
        return muted("nothing to pay back with")
    if decision.break_even_step is None:
        return muted("never")
    return number(
        derived(
            decision.break_even_step,
            "steps",
            note=f"of the tuned job, in {'device' if _counts_devices(view) else 'wall'} time",
        )
    )


def _raw_speedup(view: SessionView) -> Estimate | None:
    return view.decided_confirmation.raw_speedup if view.decided_confirmation else None


def _limits_summary(limits: Sequence[LimitKept]) -> Cell:
    if not limits:
        return muted("no job in the journal")
    kept = sum(limit.judgement is Judgement.PASS for limit in limits)
    broken = [limit.limit for limit in limits if limit.judgement is Judgement.FAIL]
    unsettled = [limit.limit for limit in limits if limit.judgement is Judgement.INCONCLUSIVE]
    text = f"{kept} of {len(limits)} shown kept"
    if broken:
        return Words(text=text, detail=f"broken: {', '.join(broken)}", tone=Tone.BAD)
    if unsettled:
        return Words(text=text, detail=f"not settled: {', '.join(unsettled)}", tone=Tone.UNSURE)
    return Words(text=text, detail="see the table below", tone=Tone.GOOD)


def _limits(limits: Sequence[LimitKept]) -> Table:
    return Table(
        caption="Limits you set",
        columns=(column("limit"), column("your value"), column("observed"), column("kept?"), column("how we know")),
        rows=tuple(
            (
                words(limit.limit),
                words(limit.owner),
                number(
                    limit.observed, missing="does not apply" if limit.limit.startswith("allow_") else "not measured"
                ),
                KEPT[limit.judgement],
                words(limit.how),
            )
            for limit in limits
        ),
    )


def _configuration(view: SessionView, decision: Decision) -> Block:
    """Return what changes in the user's own configuration; read off the settings, not off the change's name."""
    if view.started is None:
        old = {move.knob: move.old for move in decision.change.moves}
    else:
        old = {lever.knob: lever.value for lever in view.started.baseline_levers}
    moved = [name for name in sorted(decision.settings) if name in old and decision.settings[name] != old[name]]
    if not moved:
        return Text(heading="Configuration handed back", lines=("identical to the baseline, knob by knob",))
    best = {lever.knob: lever.value for lever in view.started.best_practice_levers} if view.started else {}
    return Table(
        caption="Configuration handed back",
        columns=(column("knob"), column("old"), column("new"), column("best practice")),
        rows=tuple(
            (
                words(name),
                knob(old[name]),
                knob(decision.settings[name], Tone.GOOD),
                knob(best[name]) if name in best else muted("not stated"),
            )
            for name in moved
        ),
    )


def _count(value: int, unit: str) -> Cell:
    return number(derived(value, unit, note="counted in the journal"))
