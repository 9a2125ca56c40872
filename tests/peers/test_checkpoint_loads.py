"""transformers loads a checkpoint of ours: model and tokenizer, nothing else needed."""

from pathlib import Path

import pytest
import torch

from steptune.core.model import DenseModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.hf.checkpoint import write_checkpoint
from steptune.engine.micro_batch import Run
from steptune.engine.model import build_model
from steptune.envs.math.problems import validation_problems
from steptune.envs.math.tokenizer import MathTokenizer

transformers = pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore")
def test_model_and_tokenizer_load_and_agree_with_ours(tmp_path: Path) -> None:
    ours = MathTokenizer()
    spec = DenseModel(num_layers=2, d_model=32, num_heads=4, num_kv_heads=2, d_ff=48)
    model = build_model(spec, ours.vocab_size, 0)
    write_checkpoint(tmp_path / "c", spec, model.state_dict())
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "c")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "c", dtype=torch.float32).eval()
    for problem in validation_problems(50, 1, (1, 2, 3)):
        assert tokenizer(problem.text)["input_ids"] == ours.encode_prompt(problem.text)
        ids = ours.encode_completion(problem.text)
        assert tokenizer.decode(ids, skip_special_tokens=True) == problem.text
    with pytest.raises(Exception, match="UNK"):
        tokenizer("a text of another kind")
    tokens = torch.tensor(ours.encode_prompt(validation_problems(1, 1, (3,))[0].text))
    with torch.no_grad():
        context = Context(attend=attend_runs([Run(len(tokens), 1)]))
        expected = model.logits(model.hidden(tokens, torch.arange(len(tokens)), context))
        torch.testing.assert_close(theirs(tokens[None]).logits[0], expected, rtol=0, atol=1e-4)
