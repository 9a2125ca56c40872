"""The list of overrides that Hydra prints when a job fails, and NeMo RL when it starts.

    Error executing job with overrides: ['data.train_batch_size=512', 'actor.optim.lr=2e-6', ...]

The surprise: terminals wrap it in the middle of a word, so its lines are joined without a space; it is then the most
reliable statement of a configuration in a whole post, because every variable is already resolved.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from steptune.core.paste import Setting
from steptune.readers.config.arguments import is_override, read_override
from steptune.readers.config.shell_words import Word
from steptune.readers.config.yaml_text import NumberedLine

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")


def read_override_list(lines: Sequence[NumberedLine], path: str) -> Iterator[Setting]:
    """Yield the settings of the quoted overrides in ``lines``, in order."""
    starts = [0]
    for _, text in lines:
        starts.append(starts[-1] + len(text))
    for found in _QUOTED.finditer("".join(text for _, text in lines)):
        text = found[1] if found[1] is not None else found[2]
        row = min(bisect_right(starts, found.start()) - 1, len(lines) - 1)
        if is_override(text):
            yield from read_override(Word(text=text, line=lines[row][0]), path)
