"""The oracle table goes on where it was: nothing is measured twice, nothing that dies is tried for ever."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "search"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from search_measured import Again, Lost, Pending, Regime, Row, Table, key_of

import search_table
from search_table import NUM_AGAIN, REGIMES, read, regime_of, started, with_regime, without_pending, work
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue, Settings
from steptune.core.profile import CostCurve, CurvePoint
from steptune.testing.fake_step import fake_observation

NAMES = list(REGIMES)
EVERY: list[dict[str, KnobValue]] = [{"layout": number} for number in range(25)]


def row(settings: dict[str, KnobValue]) -> Row:
    seconds = 2.0 - 0.05 * float(str(settings["layout"]))
    return Row(settings=settings, steps_s=(seconds,), base_s=2.0, last=fake_observation(0, 1.0, 1.0, is_off=False))


def empty() -> Table:
    return Table(date="2026-11-30", machine="none", regimes={})


class Machine:
    """Stands for the engine: counts what is asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.measured: list[str] = []
        self.again: list[int] = []
        curve = CostCurve(name="x", when={}, unit="1", points=(CurvePoint(x=1, seconds=1.0),))
        stand_ins = {
            "configurations": lambda framework, job: EVERY,
            "begin": lambda framework, regime, *_: regime.model_copy(update={"costs": (curve,)}),
            "open_baseline": lambda *_: self,
            "time_baseline": lambda session: 2.0,
            "measure": self.measure,
            "again": self.measure_again,
        }
        for name, stand_in in stand_ins.items():
            monkeypatch.setattr(search_table, name, stand_in)

    def measure(self, _framework: object, _regime: Regime, settings: dict[str, KnobValue], *_: object) -> Row:
        self.measured.append(key_of(settings))
        return row(settings)

    def measure_again(self, _framework: object, _regime: Regime, group: list[Row], _: Path) -> tuple[Again, ...]:
        self.again.append(len(group))
        return tuple(Again(settings=each.settings, ratio=each.ratio, num_steps=30) for each in group)

    def close(self) -> None:
        """Nothing runs."""


def run(table: Table, num_pieces: int | None = None) -> tuple[Table, int]:
    """Work for as many yields; return the table and how many there were."""
    made: Iterator[Table] = work(None, table, Path("unused"), lambda seconds: True, None)  # type: ignore[arg-type]
    count = 0
    for count, table in enumerate(made, 1):  # noqa: B007
        if count == num_pieces:
            break
    return table, count


def test_a_table_that_was_cut_off_anywhere_is_made_whole_without_measuring_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, table = Machine(monkeypatch), empty()
    for num_pieces in (1, 2, 7, 8, 60, 99):
        table = Table.model_validate_json(run(table, num_pieces)[0].model_dump_json())
    table, _ = run(table)
    # cut off between its start and its row, a configuration begins once more
    assert len(machine.measured) == len(REGIMES) * len(EVERY)
    assert all(len(regime.rows) == len(EVERY) for regime in table.regimes.values())
    assert run(table)[1] == 0


def test_the_fastest_of_every_regime_come_before_the_next_fastest_of_any(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    table, _ = run(empty())
    assert machine.again == [10] * 2 * len(REGIMES)
    regime = table.regimes[NAMES[0]]
    assert len(regime.again) == NUM_AGAIN
    assert regime.again[0].settings == EVERY[-1]


def test_a_block_ends_before_a_piece_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch)
    left = [200.0]

    def fits(seconds: float) -> bool:
        left[0] -= seconds
        return left[0] >= 0

    made = list(work(None, empty(), Path("unused"), fits, None))  # type: ignore[arg-type]
    assert list(made[-1].regimes) == NAMES[:1]
    assert 0 < len(made[-1].regimes[NAMES[0]].rows) < len(EVERY)


def test_what_takes_the_process_down_twice_is_left_out_and_once_is_not() -> None:
    table = with_regime(empty(), NAMES[0], regime_of(NAMES[0], is_quick=False))
    once = table.model_copy(update={"pending": started(None, EVERY[3])})
    assert without_pending(once) == once
    twice = once.model_copy(update={"pending": started(once.pending, EVERY[3])})
    assert twice.pending == Pending(settings=EVERY[3], num_starts=2)
    (lost,) = without_pending(twice).regimes[NAMES[0]].lost
    assert lost.settings == EVERY[3]
    assert started(once.pending, EVERY[4]).num_starts == 1


def test_a_configuration_that_fails_is_kept_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)

    def dies(framework: object, regime: Regime, settings: Settings, *rest: object) -> Row:
        if settings["layout"] == 2:
            raise MemoryError("asked for 3 GiB")
        return machine.measure(framework, regime, dict(settings), *rest)

    monkeypatch.setattr(search_table, "measure", dies)
    table, _ = run(empty())
    assert table.regimes[NAMES[0]].lost == (Lost(settings=EVERY[2], why="MemoryError: asked for 3 GiB"),)
    assert len(table.regimes[NAMES[0]].rows) == len(EVERY) - 1


def test_a_table_of_another_job_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    mine = with_regime(empty(), NAMES[0], regime_of(NAMES[0], is_quick=False))
    file.write_text(mine.model_dump_json())
    assert read(file, is_quick=False) == mine
    other = Regime(job=JobSpec(name="other"), lengths=mine.regimes[NAMES[0]].lengths)
    file.write_text(with_regime(empty(), NAMES[0], other).model_dump_json())
    with pytest.raises(SystemExit, match="holds another job"):
        read(file, is_quick=False)
