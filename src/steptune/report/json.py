"""The report as JSON: the same cards as data, keys sorted, NaN as the string ``"NaN"``."""

import json

from steptune.report.card import Report


def render_json(report: Report) -> str:
    """Return ``report`` as indented JSON that `Report.model_validate_json` reads back."""
    return json.dumps(json.loads(report.model_dump_json()), sort_keys=True, indent=1, allow_nan=False) + "\n"
