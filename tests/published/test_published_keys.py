from dataclasses import FrozenInstanceError

import pytest

from steptune.published.keys import FRAMEWORKS, known_keys, renames
from steptune.published.knobs import knobs


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_has_keys_with_type_and_source(framework: str) -> None:
    facts = known_keys(framework)
    assert len(facts) > 100
    assert all(fact.key == key and fact.type and "@" in fact.source for key, fact in facts.items())


@pytest.mark.parametrize(
    ("framework", "key", "default"),
    [
        ("verl", "data.train_batch_size", 1024),
        ("verl", "actor_rollout_ref.actor.ppo_micro_batch_size", None),
        ("nemo_rl", "grpo.num_generations_per_prompt", 16),
        ("trl", "num_generations", 8),
        ("trl", "gradient_checkpointing", True),
        ("skyrl", "trainer.placement.colocate_all", True),
        ("openrlhf", "actor.num_nodes", 1),
        ("openrlhf", "critic.adam.lr", "1e-06 if prefix == 'actor' else 9e-06"),
        ("slime", "tensor-model-parallel-size", 1),
        ("areal", "rollout.max_head_offpolicyness", 0),
    ],
)
def test_defaults_are_what_the_frameworks_sources_say(framework: str, key: str, default: object) -> None:
    assert known_keys(framework)[key].value == default


def test_a_key_of_one_recipe_has_no_default() -> None:
    facts = known_keys("nemo_rl").values()
    assert all(not fact.default for fact in facts if "/recipes/" in fact.source)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_renamed_key_is_gone_and_its_successor_is_known(framework: str) -> None:
    known = known_keys(framework)
    for change in renames(framework):
        assert change.source
        if change.kind in ("renamed", "removed"):
            assert change.old not in known, change.old
        if change.kind == "renamed":
            assert change.new in known or any(key.startswith(f"{change.new}.") for key in known), change.new


def test_no_key_has_two_rows_of_changes() -> None:
    for framework in FRAMEWORKS:
        olds = [change.old for change in renames(framework)]
        assert len(olds) == len(set(olds))


def test_an_unknown_framework_has_nothing_and_facts_cannot_be_changed() -> None:
    assert known_keys("other") == {}
    assert renames("other") == ()
    assert knobs("other") == ()
    with pytest.raises(FrozenInstanceError):
        known_keys("trl")["beta"].key = "x"  # type: ignore[misc]


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "unsloth"])
def test_every_framework_has_knobs_under_known_keys(framework: str) -> None:
    found = knobs(framework)
    assert len(found) > 15
    assert len({knob.key for knob in found}) == len(found)
    assert all(knob.source and not knob.key.startswith(("-", "+")) for knob in found)


def test_what_a_knob_treats_is_a_cause_and_never_a_remark() -> None:
    causes = {cause for framework in FRAMEWORKS for knob in knobs(framework) for cause in knob.treats}
    assert "gen_throughput" in causes
    assert all(cause.isidentifier() for cause in causes), causes
