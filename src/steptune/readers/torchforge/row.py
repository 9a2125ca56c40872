"""The row of torchforge in the table of frameworks: the smallest one."""

import re

from steptune.readers.reading import FrameworkReader
from steptune.readers.torchforge.keys import SERIES
from steptune.readers.torchforge.profile import to_reading
from steptune.readers.torchforge.steps import is_mark, read_steps

_OWN_KEY = re.compile(
    r"main_perf/|buffer/(?:add|evict|sample)/|rl_trainer(?:_perf)?/|generator_perf/|policy_worker_perf/"
)
_OWN_SETTING = re.compile(r"off_by_n|max_policy_age|rollout_threads|(?:services|actors)\.\w[\w.]*|replay_buffer\.\w+")

ROW = FrameworkReader(
    name="torchforge",
    wanted=(
        b"METRICS STEP",
        b"main_perf/",
        b"buffer/",
        b"rl_trainer",
        b"episode/",
        b"grpo_loss/",
        b"reward/",
        b"======",
    ),
    is_mark=is_mark,
    owns_key=lambda key: _OWN_KEY.match(key) is not None,
    owns_setting=lambda key: _OWN_SETTING.fullmatch(key) is not None,
    read_steps=read_steps,
    to_reading=to_reading,
    step_mark="`=== [...] - METRICS STEP N ===` with `main_perf/continuous_training/total_duration_avg_s`",
    series=SERIES,
    trace_needles=(b"forge", b"apps.", b"apps/"),
    traces=r"\bforge[/.](?:actors|controller|observability|data_models|rl)\b|\btorchforge\b|\bapps[./](?:grpo|sft)[./]main\b",
)
