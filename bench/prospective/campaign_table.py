"""The campaign's score as text: what was asked for first, then every figure beside its trivial arms."""

from collections.abc import Sequence

from prospective.campaign_score import CampaignScore
from prospective.floor import floor_lines
from prospective.left_out import LeftOutLine
from steptune.score.text import prospective_table


def campaign_text(score: CampaignScore) -> str:
    """Return the score, ready to print."""
    engines = [
        line for engine, lines in score.by_engine.items() for line in ["", f"{engine} alone", *prospective_table(lines)]
    ]
    return "\n".join(
        [
            f"{score.num_trials} trials of {score.num_jobs} jobs, {score.num_unfinished} without a ratio; "
            f"{score.far_frac:.0%} moved the step time by more than 15 %",
            f"A/A: median {_percent(score.aa_median_frac)}, 90th percentile {_percent(score.aa_p90_frac)}; "
            f"at most {score.max_free_parameters} free parameters a forecast",
            *floor_lines(score.floors),
            "errors are |ln(forecast / measured)| as a percentage, jobs weighted equally",
            "",
            *_table(
                ("asked for", "wanted", "got", "holds"),
                [(row.what, row.wanted, row.got, "yes" if row.holds else "NO") for row in score.against],
            ),
            "",
            *prospective_table(score.lines),
            *engines,
            "",
            "jobs with a disturbance alone",
            *prospective_table(score.disturbed),
            "",
            "in retrospect: lean and width of the other jobs of the same engine",
            *_left_out_rows(score.left_out),
        ]
    )


def _left_out_rows(lines: Sequence[LeftOutLine]) -> list[str]:
    return _table(
        ("forecasts", "jobs", "scored", "median", "in 80 %", "half width", "measured / forecast", "widening"),
        [
            (
                line.what,
                str(line.num_jobs),
                str(line.num_scored),
                _percent(line.median_frac),
                _percent(line.inside_frac),
                _percent(line.half_width_frac),
                f"{line.lean:.3f}",
                f"{line.widening:.2f}",
            )
            for line in lines
        ],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
