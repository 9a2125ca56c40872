"""Tunes the example three times and prints every result: speed-ups, forecasts against measurement, guards, cost.

`python bench/example.py [N]` runs until `runs/bench-example` holds N decisions, then writes
`bench/results/example.json`. Targets: at least 2x over the default baseline
and 1.2x over best practice in every run, no failed guard, first forecasts within 12 % (median).
"""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

from steptune.core.decision import Decision, Outcome
from steptune.core.estimate import Estimate
from steptune.core.event import Event
from steptune.core.verdict import Judgement
from steptune.report.session_view import view_session
from steptune.score.forecasts import forecast_scores
from steptune.stats.forecast_error import median_ratio_error
from steptune.store.files import replace
from steptune.store.journal import read_journal
from steptune.store.replay import fold

HERE = Path(__file__).parent
JOB = HERE.parent / "examples" / "math-dense.toml"
MIN_SPEEDUP, MIN_OVER_BEST_PRACTICE = 2.0, 1.2
MAX_MEDIAN_ERROR = 0.12


def finished(runs: Path) -> list[Path]:
    """Return every run folder that holds a decision, oldest first: none is left out."""
    return sorted(path.parent for path in runs.glob("*/decision.json"))


def tune(runs: Path) -> None:
    """Tune the example once."""
    command = [sys.executable, "-m", "steptune.cli.main", "tune", str(JOB), "--runs", str(runs)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def row_of(folder: Path) -> dict[str, object]:
    """Return what one session found."""
    events = [entry.body for entry in read_journal(folder / "journal.jsonl")]
    state = fold(events)
    decision = state.decision
    assert decision is not None, "a finished session has a decision"
    pairs = first_forecasts(events)
    return {
        "is_met": is_met(decision, pairs),
        "run": folder.name,
        "code_hash": state.started.code_hash if state.started else None,
        "outcome": decision.outcome,
        "change": [str(move) for move in decision.change.moves],
        "speedup": estimate(decision.speedup),
        "over_best_practice": estimate(decision.speedup_over_best_practice),
        "raw_speedup": estimate(state.confirmed.raw_speedup if state.confirmed else None),
        "waterfall": [
            {"added": r.added, "step_s": round(r.step_time.value, 4), "ratio": estimate(r.ratio_to_previous)}
            for r in (state.waterfalls[-1].rows if state.waterfalls else ())
        ],
        "guards": {v.guard: f"{v.judgement}: {v.because}" for v in decision.verdicts},
        "first_forecasts": [
            {"change": c, "forecast": round(f, 4), "measured": round(m, 4), "error": round(abs(math.log(f / m)), 4)}
            for c, f, m in pairs
        ],
        "first_forecast_median_error": round(median_ratio_error([f for _, f, _ in pairs], [m for *_, m in pairs]), 4),
        "noise": state.baseline.noise.model_dump(mode="json") if state.baseline and state.baseline.noise else None,
        "num_trials": len(state.ended),
        "cost_wall_s": round(decision.cost_wall_s),
        "break_even_step": decision.break_even_step,
    }


def first_forecasts(events: list[Event]) -> list[tuple[str, float, float]]:
    """Return (change, forecast ratio, measured ratio) of every first forecast that was measured."""
    view = view_session(events)
    scores = forecast_scores(view.forecasts, view.trial_ends, view.waterfalls)
    return [
        (str(score.change), score.forecast.value, score.measured.value)
        for score in scores
        if score.is_first and score.forecast is not None and score.measured is not None
    ]


def is_met(decision: Decision, pairs: list[tuple[str, float, float]]) -> bool:
    """Return whether one run meets every target."""
    gain, best = decision.speedup, decision.speedup_over_best_practice
    return (
        decision.outcome in (Outcome.ADOPT, Outcome.PROVISIONAL)
        and gain is not None
        and best is not None
        and gain.value >= MIN_SPEEDUP
        and best.value >= MIN_OVER_BEST_PRACTICE
        and all(verdict.judgement is not Judgement.FAIL for verdict in decision.verdicts)
        and median_ratio_error([f for _, f, _ in pairs], [m for *_, m in pairs]) <= MAX_MEDIAN_ERROR
    )


def estimate(value: Estimate | None) -> str | None:
    """Return an estimate as text."""
    return None if value is None else str(value)


def main() -> int:
    """Tune N times; exit 1 if a target is missed."""
    num_runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    runs = Path("runs") / "bench-example"
    while len(finished(runs)) < num_runs:
        tune(runs)
    rows = [row_of(folder) for folder in finished(runs)]
    result = {"date": time.strftime("%Y-%m-%d"), "runs": rows}
    replace(HERE / "results" / "example.json", json.dumps(result, indent=2) + "\n")
    return 0 if all(row["is_met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
