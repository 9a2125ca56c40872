"""The endpoint over the real loopback, and what it says to a wrong request."""

import json
import urllib.error
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from steptune.core.job import DenseModel
from steptune.engine.http import CompletionServer
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.produce import PAD, TOKENIZER, prompt_batch
from steptune.engine.rollout import RolloutEngine

SPEC = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=16)
STATE = build_model(SPEC, TOKENIZER.vocab_size, seed=0).state_dict()
PROMPT = TOKENIZER.encode_prompt("12+3=")
CONTEXT = 64


def engine() -> RolloutEngine:
    made = RolloutEngine(
        SPEC,
        EngineKnobs(compact_finished=True, share_prefill=True),
        vocab_size=TOKENIZER.vocab_size,
        pad_id=PAD,
        eos_id=TOKENIZER.eos_id,
        context_len=CONTEXT,
    )
    made.load(STATE, version=4)
    return made


@pytest.fixture
def server() -> Generator[CompletionServer]:
    with CompletionServer(engine(), model_name="tiny", pad_id=PAD, tokenizer=TOKENIZER) as running:
        yield running


def get(server: CompletionServer, path: str) -> Any:
    with urllib.request.urlopen(server.url + path, timeout=20) as answer:
        return json.load(answer)


def post(server: CompletionServer, body: object, path: str = "/v1/completions") -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + path, data=data), timeout=20) as answer:
        return json.load(answer)


def refusal(server: CompletionServer, body: object, path: str = "/v1/completions") -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(server, body, path)
    with caught.value as error:
        return error.code, json.load(error)["error"]["message"]


def test_completions_are_the_engines_own_with_ids_log_probs_and_versions(server: CompletionServer) -> None:
    body = {"prompt": PROMPT, "n": 3, "max_tokens": 7, "temperature": 0.8, "seed": 5, "logprobs": 0}
    answer = post(server, body)
    assert answer["model"] == "tiny"
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len({tuple(choice["token_ids"]) for choice in answer["choices"]}) == 3
    for choice in answer["choices"]:
        ids, logprobs = choice["token_ids"], choice["logprobs"]
        assert choice["prompt_token_ids"] == PROMPT
        assert choice["text"] == TOKENIZER.decode(ids) == "".join(logprobs["tokens"])
        assert choice["weight_versions"] == [4] * len(ids)
        assert choice["finish_reason"] == ("stop" if ids[-1] == TOKENIZER.eos_id else "length")
        batch = prompt_batch(["12+3="], [0], 1)
        completion, length = torch.tensor([ids]), torch.tensor([len(ids)])
        for name, temperature in (("token_logprobs", 0.8), ("raw_token_logprobs", 1.0)):
            scored = engine().score(batch, completion, length, temperature=temperature)
            assert logprobs[name] == pytest.approx(scored[0].tolist(), abs=1e-5)
    used = sum(len(choice["token_ids"]) for choice in answer["choices"])
    assert answer["usage"] == {
        "prompt_tokens": len(PROMPT),
        "completion_tokens": used,
        "total_tokens": len(PROMPT) + used,
    }


def test_text_is_the_tokenizers_ids_and_no_log_probs_are_sent_unasked(server: CompletionServer) -> None:
    choice = post(server, {"prompt": "12+3=", "max_tokens": 2})["choices"][0]
    assert choice["prompt_token_ids"] == TOKENIZER.encode("12+3=")
    assert choice["logprobs"] is None


def test_what_a_request_gets_does_not_depend_on_who_is_beside_it(server: CompletionServer) -> None:
    bodies = [
        {"prompt": PROMPT[: 2 + i % 3], "max_tokens": 3 + i, "temperature": 1.0, "seed": i, "n": 1 + i % 2}
        for i in range(6)
    ]
    alone = [post(server, body)["choices"] for body in bodies]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda body: post(server, body)["choices"], bodies))
    assert [[c["token_ids"] for c in choices] for choices in alone] == [
        [c["token_ids"] for c in choices] for choices in together
    ]


def test_temperature_zero_is_the_likeliest_token(server: CompletionServer) -> None:
    answers = [post(server, {"prompt": PROMPT, "max_tokens": 4, "temperature": 0, "seed": seed}) for seed in (1, 2)]
    assert answers[0]["choices"][0]["token_ids"] == answers[1]["choices"][0]["token_ids"]


def test_health_and_models_answer_and_new_weights_arrive_between_batches(server: CompletionServer) -> None:
    assert get(server, "/health") == {"status": "ok", "weight_version": 4}
    assert [model["id"] for model in get(server, "/v1/models")["data"]] == ["tiny"]
    body = {"prompt": PROMPT, "max_tokens": 6, "temperature": 1.0, "seed": 1}
    before = post(server, body)["choices"][0]["token_ids"]
    server.load({name: tensor * 3 for name, tensor in STATE.items()}, version=5)
    after = post(server, body)["choices"][0]
    assert get(server, "/health")["weight_version"] == 5
    assert set(after["weight_versions"]) == {5}
    assert after["token_ids"] != before


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "the body is not JSON"),
        ({"max_tokens": 3}, "`prompt` of the request: Field required, got nothing"),
        ({"prompt": []}, "`prompt`"),
        ({"prompt": ""}, "`prompt`"),
        ({"prompt": [1], "n": 0}, "`n` of the request"),
        ({"prompt": [1], "max_tokens": 0}, "`max_tokens`"),
        ({"prompt": [1], "temperature": -1}, "`temperature`"),
        ({"prompt": [1], "top_p": 0.9}, "`top_p`"),
        ({"prompt": [1], "stream": True}, "`stream`"),
        ({"prompt": [1], "logprobs": 5}, "`logprobs`"),
        ({"prompt": [1], "stop": "x"}, "`stop` of the request: Extra inputs are not permitted"),
        ({"prompt": [1, 9999]}, "got token 9999; allowed: 0 to"),
        ({"prompt": [1], "max_tokens": CONTEXT}, f"got 1 + {CONTEXT} tokens; allowed: {CONTEXT} together"),
        ({"prompt": "é"}, "text has no token at character 0"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(server: CompletionServer, body: object, says: str) -> None:
    code, message = refusal(server, body)
    assert code == 400
    assert says in message
    assert "allowed: " in message
    assert "hint: " in message


def test_an_unknown_page_and_weights_over_http_are_not_there(server: CompletionServer) -> None:
    for path in ("/", "/v1/weights", "/v1/chat/completions"):
        code, message = refusal(server, {}, path)
        assert code == 404
        assert f"got POST {path}" in message
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        get(server, "/metrics")
    caught.value.close()


def test_text_without_a_tokenizer_is_refused_and_ids_are_answered() -> None:
    with CompletionServer(engine(), model_name="tiny", pad_id=PAD) as server:
        assert "this server has no tokenizer" in refusal(server, {"prompt": "12"})[1]
        assert post(server, {"prompt": [[1, 5], [1, 6, 7]], "max_tokens": 2})["usage"]["prompt_tokens"] == 5


def test_weights_that_diverged_are_the_servers_fault(server: CompletionServer) -> None:
    server.load({name: tensor * torch.nan for name, tensor in STATE.items()}, version=6)
    code, message = refusal(server, {"prompt": [1]})
    assert code == 500
    assert "NaN or infinite" in message
    server.load(STATE, version=7)
    assert post(server, {"prompt": [1]})["choices"]


def test_a_closed_server_listens_no_more() -> None:
    with CompletionServer(engine(), model_name="tiny", pad_id=PAD) as server:
        url = server.url
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url + "/health", timeout=5)
    with pytest.raises(RuntimeError, match="shutting down"):
        server.load(STATE, version=9)
