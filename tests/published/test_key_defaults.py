from steptune.published.defaults import default_of


def test_a_computed_default_is_unknown() -> None:
    assert default_of("verl", "actor_rollout_ref.rollout.free_cache_engine") == (True, True)
    assert default_of("verl", "no.such.key") == (False, None)
    assert default_of(None, "data.train_batch_size") == (False, None)
    known, value = default_of("verl", "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu")
    assert (known, value) == (False, None)
