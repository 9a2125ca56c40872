"""What is asked of the server and what becomes of its answers; the answers are shaped as vLLM's were recorded."""

import http.client
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from foreign_cases import SPEC, STATE, grouped_prompts, stub_engine

from steptune.core.errors import JobError, TrialError
from steptune.core.model import DenseModel
from steptune.engine.foreign.asks import Sampling, rollout_batch, row_asks
from steptune.engine.foreign.handover import RECORD, Handover, write_version
from steptune.engine.foreign.messages import Choice, TokenLogprobs
from steptune.engine.foreign.metrics import parse_metrics
from steptune.engine.foreign.settings import check_head, find_python
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.hf import load_model
from steptune.engine.tensor_hash import tensor_hash

Make = Callable[..., VllmEngine]
HOW = Sampling(temperature=1.0, is_forced=True, eos_ids=(2,), pad_id=0)


@pytest.fixture
def make(tmp_path: Path) -> Generator[Make]:
    made: list[VllmEngine] = []

    def build(**settings: object) -> VllmEngine:
        made.append(stub_engine(tmp_path, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield build
    for engine in made:
        engine.close()


def seen(engine: VllmEngine) -> list[str]:
    assert engine.server is not None
    connection = http.client.HTTPConnection("127.0.0.1", engine.server.port, timeout=20)
    connection.request("GET", "/seen")
    with connection.getresponse() as answer:
        found: list[str] = json.load(answer)
    connection.close()
    return found


def test_rows_come_back_in_order_with_ids_logprobs_and_version(make: Make) -> None:
    engine = make()
    engine.load(STATE, 7)
    prompts = grouped_prompts()
    batch, trace = engine.generate(
        prompts, max_completion_len=9, temperature=1.0, seed=1, forced_lengths_B=torch.tensor([2, 2, 4, 3, 3, 1])
    )
    # the stub's token i of sample s after a prompt that ends in p is 3 + (p + s + i) % 40; its log-prob -(t + 7) / 100.
    # Rows 0 and 1 are one request, row 2 another, whose only sample is its first.
    assert batch.completion_BT.tolist()[:3] == [[13, 14, 0, 0], [14, 15, 0, 0], [13, 14, 15, 16]]
    assert batch.lengths_B.tolist() == [2, 2, 4, 3, 3, 1]
    assert batch.logprobs_BT[2].tolist() == pytest.approx([-0.20, -0.21, -0.22, -0.23])
    assert batch.versions_BT[0].tolist() == [7, 7, -1, -1]
    assert batch.raw_logprobs_BT is None
    assert batch.finished_B.all()
    assert batch.entropy == pytest.approx(-float(batch.logprobs_BT.sum()) / 15)
    assert (trace.decode_iterations, trace.running_I, trace.decode_s) == (0, (), None)


def test_free_rows_end_with_the_end_of_sequence(make: Make) -> None:
    engine = make()
    engine.load(STATE, 0)
    batch, _ = engine.generate(grouped_prompts(), max_completion_len=5, temperature=1.0, seed=1)
    assert batch.lengths_B.tolist() == [5, 3, 5, 5, 3, 5]  # the stub ends odd samples after two tokens
    assert batch.finished_B.tolist() == [False, True, False, False, True, False]


def test_a_group_is_one_request_and_noise_does_not_depend_on_how_rows_are_grouped() -> None:
    prompts = grouped_prompts()
    whole = row_asks(prompts, torch.full((6,), 4), 1, HOW)
    assert [(row.first, row.ask.num_samples) for row in whole] == [(0, 3), (3, 3)]
    apart = row_asks(prompts, torch.arange(1, 7), 1, HOW)
    assert [row.first for row in apart] == list(range(6))
    seeds = [row.ask.seed for row in apart]
    assert seeds[2] == (whole[0].ask.seed or 0) + 2
    assert whole[0].ask.seed != whole[1].ask.seed
    assert seeds != [row.ask.seed for row in row_asks(prompts, torch.arange(1, 7), 2, HOW)]
    assert whole[0].ask.prompts == [[5, 10]]


def test_a_forced_length_may_not_end_early_and_a_free_one_may() -> None:
    forced = row_asks(grouped_prompts(), torch.full((6,), 4), 1, HOW)[0].ask.body()
    assert (forced["min_tokens"], forced["max_tokens"], forced["ignore_eos"]) == (4, 4, True)
    free = Sampling(temperature=0.5, is_forced=False, eos_ids=(2,), pad_id=0)
    body = row_asks(grouped_prompts(), torch.full((6,), 4), 1, free)[0].ask.body()
    assert "min_tokens" not in body
    assert (body["temperature"], body["stop_token_ids"]) == (0.5, [2])


def test_a_foreign_row_ends_at_each_of_several_ends() -> None:
    several = Sampling(temperature=1.0, is_forced=False, eos_ids=(2, 7), pad_id=0)
    asks = row_asks(grouped_prompts(), torch.full((6,), 4), 1, several)
    assert asks[0].ask.body()["stop_token_ids"] == [2, 7]
    prompts = grouped_prompts(1, 3)
    said = [[3, 2], [3, 7], [3, 4]]
    choices = [
        Choice(index=i, finish_reason=None, token_ids=ids, logprobs=TokenLogprobs(token_logprobs=[-1.0, -1.0]))
        for i, ids in enumerate(said)
    ]
    assert rollout_batch(prompts, choices, 0, several).finished_B.tolist() == [True, True, False]


def test_another_temperature_has_the_models_own_logprobs_beside_it(make: Make) -> None:
    engine = make(temperature=0.5)
    engine.load(STATE, 3)
    batch, _ = engine.generate(grouped_prompts(), max_completion_len=4, temperature=0.5, seed=1)
    assert batch.raw_logprobs_BT is not None  # scored in a second pass; the stub says the same in both
    torch.testing.assert_close(batch.raw_logprobs_BT, batch.logprobs_BT)


def test_new_weights_are_reloaded_in_place_between_pause_and_resume(make: Make, tmp_path: Path) -> None:
    engine = make()
    engine.load(STATE, 0)
    prompts = grouped_prompts(1, 1)
    first, _ = engine.generate(prompts, max_completion_len=2, temperature=1.0, seed=1)
    engine.load({name: tensor + 1 for name, tensor in STATE.items()}, 5)
    second, _ = engine.generate(prompts, max_completion_len=2, temperature=1.0, seed=1)
    torch.testing.assert_close(second.logprobs_BT, first.logprobs_BT - 0.05)
    calls = [line.split()[0] for line in seen(engine)]
    assert calls[1:5] == ["/pause?mode=keep", "/collective_rpc", "/reset_prefix_cache", "/resume"]
    assert [folder.name for folder in (tmp_path / "weights").iterdir()] == ["5"]
    assert engine.handover is not None
    assert engine.handover.hashes["embed.weight"] == tensor_hash(STATE["embed.weight"] + 1)
    assert engine.version == 5


def test_weights_that_cannot_be_loaded_end_the_server_with_the_reason(make: Make) -> None:
    # vLLM has thrown the old weights away by then, and dies at the next request
    engine = make(how="bad_reload")
    engine.load(STATE, 0)
    server = engine.server
    with pytest.raises(TrialError, match=r"refused `/collective_rpc`.*no such tensor"):
        engine.load(STATE, 1)
    assert engine.version == 0
    assert server is not None
    assert not server.is_running()


def test_a_tied_model_is_written_with_a_head_of_its_own(tmp_path: Path) -> None:
    # a reload finds no head in a tied model's file and keeps the old one (vLLM 0.32 on the CPU)
    written = write_version(tmp_path, SPEC, STATE, 3, torch.bfloat16, {"eos_token_id": 2})
    spec, state = load_model(written.folder)
    assert not spec.tie_embeddings
    torch.testing.assert_close(state["head.weight"], state["embed.weight"], rtol=0, atol=0)
    record = Handover.model_validate_json((written.folder / RECORD).read_bytes())
    assert (record.version, record.dtype) == (3, "bfloat16")
    assert record.hashes["norm.weight"] == tensor_hash(STATE["norm.weight"].bfloat16())


def test_an_answer_without_logprobs_is_refused(make: Make) -> None:
    engine = make(how="no_logprobs")
    engine.load(STATE, 0)
    with pytest.raises(TrialError, match=r"needs its log-prob, got 4 tokens, 0 log-probs"):
        engine.generate(grouped_prompts(), max_completion_len=4, temperature=1.0, seed=1)


@pytest.mark.parametrize(
    ("started_for", "more", "words"),
    [
        (1.0, {"temperature": 0.5}, "temperature 0.5"),
        (0.5, {"temperature": 0.5, "forced_lengths_B": torch.tensor([2])}, "forced lengths at temperature 0.5"),
        (1.0, {"temperature": 1.0, "max_completion_len": 65}, "longer than the model's context"),
    ],
)
def test_what_the_server_cannot_do_is_refused(make: Make, started_for: float, more: dict[str, Any], words: str) -> None:
    engine = make(temperature=started_for)
    with pytest.raises(JobError, match=words):
        engine.generate(grouped_prompts(1, 1), seed=1, **{"max_completion_len": 9, **more})


def test_without_weights_there_is_no_server(make: Make) -> None:
    with pytest.raises(TrialError, match="call `load` first"):
        make().metrics()


def test_heads_without_a_kernel_are_refused_before_anything_starts() -> None:
    with pytest.raises(JobError, match="16 wide; allowed: 32, 64"):
        check_head(DenseModel(num_layers=1, d_model=32, num_heads=2, num_kv_heads=1, d_ff=8))
    check_head(SPEC)


def test_a_missing_environment_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPTUNE_VLLM_PYTHON", str(tmp_path / "none"))
    with pytest.raises(JobError, match=r"no interpreter at .*none.*hint: `make vllm`"):
        find_python()


def test_metrics_are_read_and_a_missing_one_is_said() -> None:
    text = (Path(__file__).parent / "vllm_metrics.txt").read_text(encoding="utf-8")
    found = parse_metrics(text)
    assert (found.num_running, found.num_waiting, found.num_preemptions) == (12, 20, 5)
    assert (found.kv_usage_frac, found.num_kv_blocks, found.block_size) == (0.9375, 4096, 128)
    assert (found.num_iterations, found.cached_prompt_tokens) == (320, 384)
    with pytest.raises(TrialError, match=r"lack `vllm:num_preemptions_total`"):
        parse_metrics(text.replace("num_preemptions_total", "renamed"))
