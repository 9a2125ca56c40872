"""The table of contents: every framework whose logs can be read."""

from steptune.readers.nemo_rl.profile import to_reading as nemo_rl_reading
from steptune.readers.nemo_rl.steps import is_mark as is_nemo_rl_mark
from steptune.readers.nemo_rl.steps import read_steps as read_nemo_rl_steps
from steptune.readers.reading import FrameworkReader
from steptune.readers.verl.profile import to_reading as verl_reading
from steptune.readers.verl.steps import is_mark as is_verl_mark
from steptune.readers.verl.steps import read_steps as read_verl_steps

FRAMEWORKS = {
    "verl": FrameworkReader(
        is_mark=is_verl_mark,
        read_steps=read_verl_steps,
        to_reading=verl_reading,
        step_mark="`step:N - ... - timing_s/step:...`",
    ),
    "nemo_rl": FrameworkReader(
        is_mark=is_nemo_rl_mark,
        read_steps=read_nemo_rl_steps,
        to_reading=nemo_rl_reading,
        step_mark="`• Total step time: ...s`",
    ),
}
"""By the name that `Profile.framework` carries."""
