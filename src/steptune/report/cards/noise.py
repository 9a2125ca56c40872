"""What was measured with: the noise floor, the machine, its load, and the versions of everything."""

from steptune.core.event import SessionStarted
from steptune.core.profile import NoiseFloor
from steptune.report.blocks import Block, Cell, Figure, Figures, Table
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, muted, number, words
from steptune.report.numbers import derived, digits, estimate_text, measured
from steptune.report.session_view import SessionView


def card(view: SessionView) -> Shown | NotApplicable:
    """Show the noise floor and the machine."""
    if view.started is None and view.baseline is None:
        return NotApplicable(why="neither the start of the session nor a profile is in the journal")
    noise = view.baseline.profile.noise if view.baseline else None
    blocks: list[Block] = [Figures(figures=_noise(noise))] if noise else []
    if view.started:
        blocks.append(_machine(view, view.started))
    line = f"two launches of the same job: {estimate_text(noise.aa_ratio)}" if noise else "no noise floor was measured"
    return Shown(takeaway=line, blocks=tuple(blocks))


def _noise(noise: NoiseFloor) -> tuple[Figure, ...]:
    steps = f"over {noise.num_steps} steps"
    return (
        Figure(label="A/A ratio", cell=number(noise.aa_ratio)),
        Figure(
            label="within one launch", cell=number(derived(noise.within_launch_cv, "frac", note=f"sd / mean, {steps}"))
        ),
        Figure(
            label="between two launches",
            cell=number(derived(noise.between_launch_frac, "frac", note="of their medians")),
        ),
    )


def _machine(view: SessionView, started: SessionStarted) -> Table:
    machine = started.machine
    profile = view.baseline.profile if view.baseline else None
    rows: list[tuple[Cell, ...]] = [
        (words("processor"), words(machine.cpu)),
        (words("cores"), words(f"{machine.num_cores} present, {started.job.devices.num_cores} given to the job")),
        (words("memory"), number(measured(machine.memory_bytes, "bytes"))),
        (words("platform"), words(machine.platform)),
        (words("Python"), words(machine.python)),
        (words("torch"), words(machine.torch or "not installed")),
        (
            words("framework"),
            words(f"{profile.framework} {profile.framework_version or ''}".strip() if profile else "unknown"),
        ),
        (words("load"), _loads(view)),
        (words("steptune"), words(started.steptune_version)),
        (words("code"), words(started.code_hash)),
    ]
    for resume in view.resumes:
        again = ", ".join(map(str, resume.abandoned_trials)) or "none"
        rows.append((words("resumed with code"), words(resume.code_hash, f"trials run again: {again}")))
    heads = (column("what"), column("as recorded at the start"))
    return Table(caption="Machine and versions", columns=heads, rows=tuple(rows))


def _loads(view: SessionView) -> Cell:
    named = [(f"{event.label} profile", event.profile.load_avg) for event in view.profiles]
    named += [(f"trial {end.trial.number}", end.trial.load_avg) for end in view.trial_ends]
    if not named:
        return muted("not measured")
    text = ", ".join(f"{name} {'not measured' if load is None else digits(load)}" for name, load in named)
    return words(text, "measured, one-minute average at each start")
