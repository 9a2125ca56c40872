import hashlib
from importlib.resources import files

import pytest

from steptune.core.errors import ReadError
from steptune.published.split import SPLIT_TABLE, Side, count_rows, draw, frozen_split, owner_of, side_of
from steptune.published.table import read_rows

FROZEN_SHA256 = "87bdffd44235b51bbf8ddea3b1e430717101ec017c690119eeb58bd3b5f49236"
"""Named in the message of the commit that brought the file, before any fit."""


def test_the_split_is_the_file_that_was_committed_before_any_fit() -> None:
    assert hashlib.sha256(files("steptune.published").joinpath("data", SPLIT_TABLE).read_bytes()).hexdigest() == (
        FROZEN_SHA256
    ), "the split is frozen: a source that changes sides after a fit makes every score worthless"


def test_the_file_is_what_the_stated_rule_draws() -> None:
    drawn = draw(count_rows([row["source"] for row in read_rows("public_runs.csv")]))
    assert {place.owner: place.side for place in drawn} == frozen_split()


def test_of_each_pair_the_smaller_hash_goes_to_test() -> None:
    # sha256: a = ca97.., b = 3e23.., c = 2e7d..
    drawn = {place.owner: place.side for place in draw({"a": 5, "b": 5, "c": 1})}
    assert drawn == {"a": Side.FIT, "b": Side.TEST, "c": Side.TEST}


def test_a_source_that_came_after_the_draw_only_scores() -> None:
    assert side_of("https://github.com/somebody-new/trainer/issues/1") is Side.TEST
    assert side_of("verl-project/verl:docs/advance/fully_async.md@1dda039b9") is Side.FIT


@pytest.mark.parametrize(
    ("source", "owner"),
    [
        ("NVIDIA-NeMo/RL@pull/2059/head:docs/x.md", "nvidia-nemo"),
        ("verl-project/verl commit 828bd3950 (PR 6243)", "verl-project"),
        ("https://github.com/OpenRLHF/OpenRLHF/issues/296 (quoting a table)", "openrlhf"),
    ],
)
def test_a_source_belongs_to_the_owner_of_its_repository(source: str, owner: str) -> None:
    assert owner_of(source) == owner


def test_a_source_without_a_repository_is_refused() -> None:
    with pytest.raises(ReadError, match="owner/repository"):
        owner_of("a blog post")
