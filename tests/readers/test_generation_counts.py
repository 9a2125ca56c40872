"""Batches generated under dynamic sampling and seconds of tool calls, as the frameworks name them."""

import pytest

from steptune.readers.frameworks import framework

NAMED = [
    ("verl", "train/num_gen_batches", "gen_batches"),
    ("verl", "timing_s/agent_loop/tool_calls/mean", "tool_time"),
    ("nemo_rl", "train/dynamic_sampling_num_gen_batches", "gen_batches"),
]


@pytest.mark.parametrize(("by", "key", "name"), NAMED)
def test_the_frameworks_own_key_is_told_under_its_canonical_name(by: str, key: str, name: str) -> None:
    row = framework(by)
    assert row.series[row.normal_key(key)].name == name
