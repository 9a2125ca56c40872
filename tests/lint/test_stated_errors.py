import pytest

from steptune.core.finding import Finding, Severity
from steptune.core.paste import Excerpt, ExcerptKind, Paste, Setting
from steptune.core.profile import Origin
from steptune.lint.check import lint
from steptune.lint.load import frameworks, rule_set
from steptune.lint.stated import stated_errors


def findings(*texts: str, kind: ExcerptKind = ExcerptKind.ERROR, settings: tuple[Setting, ...] = ()) -> list[Finding]:
    excerpts = tuple(
        Excerpt(kind=kind, text=text, origin=Origin(path="run.log", line=number, key=""))
        for number, text in enumerate(texts, start=1)
    )
    return list(lint(Paste(paths=("run.log",), excerpts=excerpts, settings=settings)))


REFUSALS = [
    (
        "ValueError: The global train batch size (7 x 1) must be evenly divisible by the number of generations per "
        "prompt (8). Given the current train batch size, the valid values for the number of generations are: [7].",
        "trl/refused_group_batch",
        "7 processes x 1 completions",
    ),
    (
        "ValueError: generation_batch_size (500) must be divisible by num_generations (12).",
        "trl/refused_generation_batch",
        "make the product 504",  # 42 x 12
    ),
    ("ValueError: GRPO requires at least 2 generations per prompt to calculate", "trl/refused_group_of_one", "spread"),
    (
        "AssertionError: real_train_batch_size (20) must be divisible by total n_gpus (8).",
        "verl/refused_train_batch",
        "16 or 24",
    ),
    (
        "AssertionError: real_train_batch_size (4) must be divisible by minimal possible batch size (8)",
        "verl/refused_train_batch",
        "rollout.n 8, or",  # there is no multiple below
    ),
    (
        "AssertionError: ppo_mini_batch_size 0 should be larger than 0 after normalization",
        "verl/refused_mini_batch_share",
        "share is 0",
    ),
    (
        "AssertionError: normalized ppo_mini_batch_size 6 should be divisible by ppo_micro_batch_size_per_gpu 4",
        "verl/refused_micro_batch",
        "divisors of 6",
    ),
    (
        "AssertionError: train_batch_size (16) must be >= actor.ppo_mini_batch_size (128)",
        "verl/refused_mini_above_batch",
        "below actor.ppo_mini_batch_size",
    ),
    (
        "AssertionError: only support equal chunk. Got size of DataProto 31 and chunk 4.",
        "verl/refused_equal_chunk",
        "28 or 32",
    ),
    (
        "AssertionError: only support equal split. Got size of DataProto 10 and split 3.",
        "any/refused_equal_chunk",
        "9 or 12",
    ),
    (
        "ValueError: Total available GPUs 8.0 is less than total desired GPUs 16",
        "verl/refused_device_count",
        "asks for 16 devices, Ray sees 8.0",
    ),
    (
        "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).",
        "any/refused_heads",
        "divides 28",
    ),
    ("AssertionError: 25 is not divisible by 4", "any/refused_division", "25"),
    (
        "RuntimeError: world_size (24) is not divisible by expert_tensor_model_pipeline_parallel size (32)",
        "any/refused_world_size",
        "expert_tensor_model_pipeline_parallel size 32",
    ),
    (
        "AssertionError: global batch size (64) is not divisible by micro batch size (1) times data parallel size (3)",
        "any/refused_global_batch",
        "64 / 3",
    ),
    (
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 100 != 3 * 4 * 8",
        "any/refused_deepspeed_batch",
        "nearest multiples of 8: 96 or 104",
    ),
    (
        "ValueError: max_num_batched_tokens (4096) is smaller than max_model_len (4608). This effectively limits",
        "any/refused_batched_tokens",
        "raise max_num_batched_tokens",
    ),
    (
        "ValueError: Enable chunked prefill, max_num_batched_tokens is smaller than max_model_len, please increase",
        "any/refused_batched_tokens",
        "raise max_num_batched_tokens",
    ),
    (
        "ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len "
        "(max_position_embeddings=32768 or model_max_length=None in model's config.json).",
        "any/refused_model_length",
        "within 32768",
    ),
    (
        "ValueError: The decoder prompt (length 8357) is longer than the maximum model length of 8192.",
        "any/prompt_above_model_length",
        "8357 tokens",
    ),
    ("Could not override 'actor.foo'.", "any/refused_key", "`actor.foo`"),
    ("omegaconf.errors.ConfigAttributeError: Key 'foo' is not in struct", "any/refused_key", "`foo`"),
    (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for RLConfig orchestrator.foo "
        "Extra inputs are not permitted [type=extra_forbidden, input_value=False, input_type=bool]",
        "any/refused_key",
        "`orchestrator.foo`",
    ),
    ("train.py: error: unrecognized arguments: --foo 1", "any/refused_argument", "`--foo`"),
    (
        "TypeError: GRPOConfig.__init__() got an unexpected keyword argument 'top_p'",
        "any/refused_argument",
        "`top_p` is no argument of GRPOConfig.__init__()",
    ),
    (
        "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--foo', '1']",
        "any/refused_argument",
        "`--foo`",
    ),
    (
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='10.0.0.1', port=8000): Max retries exceeded "
        "with url: /generate/ (Caused by NewConnectionError(': [Errno 111] Connection refused'))",
        "any/server_unreachable",
        "port=8000",
    ),
    (
        "ConnectionError: The vLLM server can't be reached at http://0.0.0.0:8000 after 240.0 seconds. Make sure",
        "any/server_unreachable",
        "start it before the trainer",
    ),
    (
        "Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 9d000",
        "any/duplicate_device",
        "ranks 3 and 0",
    ),
    ("RuntimeError: CUDA error: invalid device ordinal", "any/device_not_visible", "does not see"),
    (
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has "
        "compute capability 7.5. You can use float16 instead",
        "any/refused_precision",
        "Tesla T4 has 7.5",
    ),
    (
        "(autoscaler +1m) Error: No available node types can fulfill resource request {'CPU': 1.0, 'GPU': 4.0}.",
        "any/refused_resources",
        "waits for 4.0 GPU",
    ),
    (
        "RuntimeError: world_size (6) is not equal to tensor_model_parallel_size (2) "
        "x pipeline_model_parallel_size (1)",
        "any/refused_sides",
        "6 processes",
    ),
    (
        "AssertionError: rollout world_size: 6 is not divisible by infer_tp: 4",
        "any/refused_multiple",
        "make rollout world_size 4 or 8",
    ),
    (
        "AssertionError: data batch size must be divisible by mini_batch_size, got 1030 and 500",
        "any/refused_multiple",
        "make data batch size 1000 or 1500",
    ),
    (
        "ValueError: rollout_batch_size (48) should be a multiple of dp_size 32",
        "any/refused_multiple",
        "rollout_batch_size 48 is not a multiple of dp_size 32",
    ),
    (
        "ValueError: max_completion_length (4096) must be less than max_model_len 2048",
        "any/refused_bound",
        "must be less than max_model_len, 2048",
    ),
    (
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /broadcast_from/0/4",
        "any/rendezvous_timeout",
        "wait timeout after 300000ms",
    ),
    (
        "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to "
        "(10.0.0.1, 51216).",
        "any/rendezvous_timeout",
        "(10.0.0.1, 51216)",
    ),
    (
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=BROADCAST, "
        "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
        "any/collective_timeout",
        "BROADCAST was not finished after 600013 ms",
    ),
]


@pytest.mark.parametrize(("text", "code", "says"), REFUSALS)
def test_a_refusal_is_a_fault_with_its_numbers(text: str, code: str, says: str) -> None:
    [finding] = findings(text)
    assert (finding.code, finding.severity) == (f"lint/{code}", Severity.FAULT)
    told = "\n".join([finding.title, *(e.text for e in finding.evidence), *(r.text for r in finding.remedies)])
    assert says in told
    assert "?" not in told.replace(text, "")


def test_every_known_refusal_has_an_example_here() -> None:
    assert {f"{error.framework}/{error.id}" for error in stated_errors()} == {code for _, code, _ in REFUSALS}


def test_no_refusal_shares_its_code_with_a_rule() -> None:
    rules = {f"lint/{name}/{rule.id}" for name in frameworks() for rule in rule_set(name).rules}
    assert not rules & {error.code for error in stated_errors()}


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: device-side assert triggered",
        "AssertionError",
        "ValueError: batch must be divisible by something",
        "RuntimeError: The size of tensor a (1685) must match the size of tensor b (1684) at non-singleton dimension 0",
        "ValueError: step 12 is not a multiple of anything",
        "TypeError: forward() got an unexpected keyword argument 'x'",
    ],
)
def test_other_errors_say_nothing_of_the_configuration(text: str) -> None:
    assert findings(text) == []


def test_ranks_that_repeat_a_refusal_and_a_key_without_its_path_are_one_finding() -> None:
    text = REFUSALS[0][0]
    assert len(findings(text, f"[rank1]: {text}")) == 1
    assert len(findings("Could not override 'actor.foo'.", "Key 'foo' is not in struct")) == 1
    assert len(findings("Could not override 'actor.foo'.", "Could not override 'actor.bar'.")) == 2


def test_progress_and_events_are_no_refusals() -> None:
    assert findings(REFUSALS[0][0], kind=ExcerptKind.EVENT) == []
