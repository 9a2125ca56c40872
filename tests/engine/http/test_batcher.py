"""Who is decoded with whom, and what one request's mistake costs the others."""

import pytest
import torch
from test_completion_server import PROMPT, engine

from steptune.core.errors import JobError
from steptune.engine.http.batcher import Ask, Batcher
from steptune.engine.produce import PAD


def ask(seed: int = 0, temperature: float = 1.0, prompt: tuple[int, ...] = tuple(PROMPT), n: int = 1) -> Ask:
    return Ask(prompts=(prompt,), num_samples=n, max_tokens=4 + seed, temperature=temperature, seed=seed)


def test_all_that_waits_is_one_batch_and_each_temperature_another() -> None:
    batcher = Batcher(engine(), PAD)
    futures = [batcher.submit(a) for a in (ask(0, n=2), ask(1), ask(2, temperature=0.5), ask(3, prompt=(1, 4)))]
    batcher.start()
    completions = [future.result(20) for future in futures]
    batcher.close()
    assert batcher.batch_rows == [4, 1]
    assert [len(done) for done in completions] == [2, 1, 1, 1]
    for seed, done in enumerate(completions):
        assert all(len(c.token_ids) <= 4 + seed for c in done)
        assert all(len(c.token_ids) == len(c.logprobs) == len(c.raw_logprobs) for c in done)


def test_a_request_with_a_mistake_fails_alone() -> None:
    batcher = Batcher(engine(), PAD)
    good, bad, other = (batcher.submit(a) for a in (ask(0), ask(1, prompt=(1, 9999)), ask(2)))
    batcher.start()
    assert good.result(20)
    assert other.result(20)
    with pytest.raises(JobError, match="9999"):
        bad.result(20)
    batcher.close()


def test_new_weights_come_between_the_requests_before_and_after_them() -> None:
    made = engine()
    state = {name: tensor.clone() for name, tensor in made._model.state_dict().items()}
    batcher = Batcher(made, PAD)
    before = batcher.submit(ask())
    loaded = batcher.between_batches(lambda: made.load(state, 9))
    after = batcher.submit(ask())
    batcher.start()
    assert set(before.result(20)[0].versions) == {4}
    assert loaded.result(20) is None
    assert set(after.result(20)[0].versions) == {9}
    assert before.result()[0].token_ids == after.result()[0].token_ids
    batcher.close()


def test_closing_answers_what_was_asked_and_refuses_the_rest() -> None:
    batcher = Batcher(engine(), PAD)
    asked = batcher.submit(ask())
    batcher.start()
    batcher.close()
    assert asked.result(0)
    with pytest.raises(RuntimeError, match="shutting down"):
        batcher.submit(ask())
    batcher.close()


def test_an_error_in_an_errand_reaches_who_sent_it() -> None:
    batcher = Batcher(engine(), PAD)
    broken = batcher.between_batches(lambda: torch.zeros(2).view(3))
    batcher.start()
    with pytest.raises(RuntimeError):
        broken.result(20)
    assert batcher.submit(ask()).result(20)
    batcher.close()
