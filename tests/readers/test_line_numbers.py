"""A line has the number that an editor shows, whatever characters stand above it."""

from pathlib import Path

import pytest

from steptune.readers.lines import read_numbered
from steptune.readers.read_paste import read_paste

ODD = ("\r", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\0")
"""Characters that Python ends a line at, or drops, and `grep -n` does not."""

TEXTS = {
    "job.yaml": ("# a comment{odd}{more}\ntrainer:\n  nnodes: 1\n  n_gpus_per_node: 8\n", "trainer.n_gpus_per_node", 4),
    "job.toml": ("# a comment{odd}{more}\n[trainer]\nnnodes = 1\nn_gpus_per_node = 8\n", "trainer.n_gpus_per_node", 4),
    "run.sh": (
        "# {odd}{more}\npython -m verl.trainer.main_ppo \\\n  trainer.nnodes=1 \\\n  data.train_batch_size=64\n",
        "data.train_batch_size",
        4,
    ),
    "train.py": (
        "# a comment{odd}{more}\nfrom trl import GRPOConfig\n\nargs = GRPOConfig(num_generations=8)\n",
        "num_generations",
        4,
    ),
    "post.txt": (
        "# a comment{odd}{more}\n\npython3 -m verl.trainer.main_ppo trainer.nnodes=1 data.train_batch_size=64\n",
        "data.train_batch_size",
        3,
    ),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("more", ["here", ""])
def test_a_setting_stands_on_the_line_an_editor_shows(tmp_path: Path, name: str, odd: str, more: str) -> None:
    text, key, line = TEXTS[name]
    path = tmp_path / name
    path.write_text(text.format(odd=odd, more=more), encoding="utf-8", newline="")
    paste = read_paste([path])
    found = [s.origin.line for s in paste.settings if s.key == key and s.origin is not None]
    assert found == [line]
    assert line <= paste.num_lines


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("", []),
        ("\n", [(1, "")]),
        ("a", [(1, "a")]),
        ("a\r\n\r\nb\r\n", [(1, "a"), (2, ""), (3, "b")]),
        ("a\rb\nc", [(1, "a b"), (2, "c")]),
    ],
)
def test_only_a_line_feed_ends_a_line(tmp_path: Path, written: str, lines: list[tuple[int, str]]) -> None:
    path = tmp_path / "text"
    path.write_text(written, newline="")
    assert read_numbered(path) == lines
