"""An embedding may have more rows than the tokenizer has tokens: they cost time and change no other row."""

import torch

from steptune.core.model import DenseModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.micro_batch import Run
from steptune.engine.model import build_model

TINY = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=16)


def test_the_embedding_is_as_large_as_the_spec_says() -> None:
    assert build_model(TINY.model_copy(update={"padded_vocab": 40}), 12, seed=0).embed.weight.shape == (40, 16)
    assert build_model(TINY, 12, seed=0).embed.weight.shape == (12, 16)


def test_it_is_never_smaller_than_the_tokenizer() -> None:
    assert build_model(TINY.model_copy(update={"padded_vocab": 5}), 12, seed=0).embed.weight.shape == (12, 16)


def test_logits_of_real_tokens_do_not_depend_on_the_padding() -> None:
    plain, padded = build_model(TINY, 12, seed=0), build_model(TINY.model_copy(update={"padded_vocab": 40}), 12, seed=0)
    state = plain.state_dict()
    rows = torch.cat((state["embed.weight"], torch.zeros(28, 16)))
    padded.load_state_dict(state | {"embed.weight": rows})
    tokens, context = torch.arange(3, 9), Context(attend=attend_runs([Run(6, 1)]))
    logits = [model.logits(model.hidden(tokens, torch.arange(6), context)) for model in (plain, padded)]
    torch.testing.assert_close(logits[1][:, :12], logits[0])
