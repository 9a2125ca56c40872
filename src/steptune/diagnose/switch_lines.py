"""What prints timings, in the language of the user's own configuration: keyword arguments for a `GRPOConfig(...)`.

Surprise: only a key with a value can be said in another language; flags and files to look for stay as they are.
"""

import re

from steptune.diagnose.config_lines import Change, config_lines
from steptune.diagnose.job import Job
from steptune.published.switches import Switch, switches

_PAIR = re.compile(r"\+{0,2}(?P<key>[\w.]+)(?:=|: )(?P<value>.+)")


def switch_lines(job: Job) -> tuple[tuple[str, str], ...]:
    """Return the lines that would print timings, each with what it makes visible; empty for all but the last of one."""
    found: list[tuple[str, str]] = []
    for switch in switches(job.paste.framework or ""):
        *above, last = _lines(job, switch)
        found += [*((line, "") for line in above), (last, switch.prints)]
    return tuple(found)


def _lines(job: Job, switch: Switch) -> tuple[str, ...]:
    pair = _PAIR.fullmatch(switch.line) if switch.where in ("yaml", "override") else None
    is_own = any(setting.layer in ("file", "code", "override") for setting in job.paste.settings)
    if pair is None or not is_own:
        return (switch.line,)
    text = pair["value"]
    typed = {"true": True, "false": False}.get(text.lower(), int(text) if text.isdecimal() else text)
    return config_lines(job, [Change(key=pair["key"], value=typed)])
