"""Changes and switches are in the frameworks' own keys, and agree with the tables of keys and knobs."""

import re

import pytest

from steptune.core.bottleneck import BottleneckKind
from steptune.core.knob import Effect
from steptune.published.declared import declared_keys, normal_key
from steptune.published.keys import FRAMEWORKS, known_keys, renames
from steptune.published.knobs import knobs
from steptune.published.mismatch_scales import mismatch_scales
from steptune.published.misnomers import misnomers
from steptune.published.moves import Move, all_moves, moves
from steptune.published.switches import switches
from steptune.published.table import read_rows

PASSED_THROUGH = ("sglang_",)
"""Prefixes that slime hands to its engine unread."""


def known_in(framework: str) -> dict[str, str]:
    """Return the known keys in normal form with their defaults, renamed ones included."""
    names = {normal_key(key): fact.default for key, fact in known_keys(framework).items()}
    return {normal_key(r.old): "" for r in renames(framework)} | names


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_moves_turn_keys_that_exist(framework: str) -> None:
    names = known_in(framework)
    steps = [step for move in all_moves() if move.framework == framework for step in move.steps]
    assert steps
    unknown = {s.key for s in steps if normal_key(s.key) not in names and not s.key.startswith(PASSED_THROUGH)}
    assert unknown == set()


def test_moves_touch_what_the_table_of_knobs_says() -> None:
    words = {Effect.NONE: "preserving", Effect.PRECISION: "precision", Effect.STALENESS: "staleness"}
    for move in all_moves():
        held = {normal_key(knob.key): knob.semantics for knob in knobs(move.framework)}
        stated = {held[normal_key(step.key)] for step in move.steps if normal_key(step.key) in held}
        assert stated <= {words[move.touches]}, move


def test_defaults_are_those_of_the_frameworks() -> None:
    for move in all_moves():
        names = known_in(move.framework) if move.framework in FRAMEWORKS else {}
        for step in move.steps:
            listed = names.get(normal_key(step.key), "").strip("'")
            if step.default and listed and re.fullmatch(r"[\w.]+", listed):
                assert listed.lower() == step.default.lower(), step


def test_no_move_changes_the_algorithm() -> None:
    assert Effect.ALGORITHM not in {move.touches for move in all_moves()}
    held = {
        normal_key(key)
        for concept in ("prompts_per_step", "group_size", "max_completion_len")
        for key in declared_keys(concept)
    }
    assert not held & {normal_key(step.key) for move in all_moves() for step in move.steps}


def test_what_keeps_the_results_comes_first() -> None:
    order = [move.touches for move in moves("verl", BottleneckKind.ROLLOUT_BOUND)]
    assert order == sorted(order, key=list(Effect).index)
    assert moves("no such framework", BottleneckKind.ROLLOUT_BOUND) == ()


def test_relative_changes_have_a_number() -> None:
    steps = [step for move in all_moves() for step in move.steps]
    for step in steps:
        assert step.op in ("flag", "drop") or step.value
        if step.op in ("*", "/", "+"):
            assert float(step.value) > 0
        if step.op == "+":
            assert 0 < float(step.limit) < 0.95


def test_every_row_of_every_table_has_a_source() -> None:
    assert all(move.source and move.text for move in all_moves())
    assert all(misnomer.source for misnomer in misnomers())
    assert all(scale.source for scale in mismatch_scales())
    assert all(row["source"] for row in read_rows("declared.csv"))
    assert all(s.source and s.prints for f in FRAMEWORKS for s in switches(f))


def test_a_move_reads_its_row() -> None:
    found = next(m for m in moves("trl", BottleneckKind.TRAINER_BOUND) if len(m.steps) == 2)
    assert isinstance(found, Move)
    assert [(s.key, s.op, s.value) for s in found.steps] == [
        ("per_device_train_batch_size", "*", "2"),
        ("gradient_accumulation_steps", "/", "2"),
    ]


def test_suspicious_comes_before_broken() -> None:
    for scale in mismatch_scales():
        assert (scale.suspicious < scale.broken) == (scale.side == "high")


def test_spellings_of_one_key_are_one_key() -> None:
    assert normal_key("--rollout-batch-size") == normal_key("rollout_batch_size")
    assert "rollout_batch_size" in declared_keys("prompts_per_step")
