"""What stays of a long log, and who said that memory is still in use."""

from steptune.readers.scan.keep import FIRST_STEPS, RECENT_STEPS, StepKeeper
from steptune.readers.scan.sleep import SleepWatcher
from steptune.readers.step import Reading, StepRecord

KEYS = ("s/it", "loss", "reward", "grad_norm")


def record(number: int, num_readings: int) -> StepRecord:
    keys = KEYS[:num_readings]
    readings = {key: Reading(key=key, value=1.0, text="1.0", line=number) for key in keys}
    return StepRecord(number=number, path="run.log", readings=readings)


def test_bars_between_metrics_do_not_push_these_out() -> None:
    keeper = StepKeeper()
    keeper.take(record(n, 4 if n % 10 == 0 else 1) for n in range(1, 3001))
    kept = [r.number for r in keeper.kept()]
    assert set(range(10, 3001, 10)) <= {*kept}
    assert kept == sorted(n for n in kept if n is not None)
    assert len(kept) <= FIRST_STEPS + 2 * RECENT_STEPS
    assert keeper.num_left_out == 3000 - len(kept)


def test_every_engine_has_its_own_series() -> None:
    watcher = SleepWatcher(path="run.log")
    for line in range(6):
        pid, gib = 70 + line % 2, 4.0 + 20 * (line % 2)
        watcher.take(line + 1, f"(EngineCore_DP0 pid={pid}) Sleep mode freed 40 GiB, {gib} GiB memory is still in use")
    first, second = watcher.series()
    assert ({p.value for p in first.points}, {p.value for p in second.points}) == ({4.0}, {24.0})
    assert first.key != second.key
    assert len(first.points) == len(second.points) == 3


def test_engines_without_a_name_are_one_series() -> None:
    watcher = SleepWatcher(path="run.log")
    for line in (1, 2):
        watcher.take(line, f"Sleep mode freed 40 GiB, {line}.0 GiB memory is still in use")
    [series] = watcher.series()
    assert [p.value for p in series.points] == [1.0, 2.0]
