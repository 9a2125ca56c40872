"""A replication as text: both machines side by side."""

from steptune.core.replicated import Replicated, Side
from steptune.report.blocks import Cell, Table
from steptune.report.cells import column, number, numbers, words
from steptune.report.text_table import table_lines


def replicated_text(replicated: Replicated) -> str:
    """Return the two results as a table, the machines named below it, and what may be said."""
    there, here = replicated.there, replicated.here
    rows: tuple[tuple[Cell, ...], ...] = (
        (words("baseline, s per step"), number(there.baseline_step), number(here.baseline_step)),
        (words("winner, s per step"), number(there.winner_step), number(here.winner_step)),
        (words("baseline / winner"), number(there.speedup), number(here.speedup)),
    )
    heads = (column("result"), numbers("in the pack"), numbers("here"))
    table = Table(caption=f"Replication of {replicated.name}", columns=heads, rows=rows)
    settings = ", ".join(f"{knob}={value}" for knob, value in sorted(replicated.winner.items()))
    code = "the same code" if replicated.is_same_code else "other code than the pack's: compare with care"
    lines = [*table_lines(table), "", f"replicate: {replicated.verdict}", f"  winner: {settings}", f"  code: {code}"]
    return "".join(f"{line}\n" for line in (*lines, f"  in the pack: {_machine(there)}", f"  here: {_machine(here)}"))


def _machine(side: Side) -> str:
    machine = side.machine
    torch = f", torch {machine.torch}" if machine.torch else ""
    return f"{machine.cpu}, {machine.num_cores} cores, Python {machine.python}{torch}, {machine.platform}"
