"""Secrets never reach an output, however they are quoted; what is no secret stays readable."""

import json
import string

import pytest
from diagnosis_records import SCRIPT, full, origin
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.comparison import Comparison, SettingDifference, SpeedVerdict
from steptune.core.finding import Diagnosis, Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Excerpt, ExcerptKind, Paste, Setting
from steptune.report.answer_json import answer_json
from steptune.report.comparison_html import comparison_html
from steptune.report.comparison_text import comparison_text
from steptune.report.diagnosis_html import diagnosis_html
from steptune.report.diagnosis_text import diagnosis_text
from steptune.report.redact import REDACTED, is_secret_key, redact, redact_text

LETTERS = string.ascii_letters + string.digits
KEYS = st.text(LETTERS, min_size=32, max_size=40).filter(lambda key: not key.isdigit() and not key.isalpha())

CARRIERS = (
    "export WANDB_API_KEY={}",
    "WANDB_API_KEY='{}' python train.py",
    '"wandb_api_key": "{}",',
    "{{'api_key': '{}'}}",
    "++trainer.hf_token={}",
    "HF_TOKEN={} HYDRA_FULL_ERROR=1",
    "HUGGING_FACE_HUB_TOKEN: {}",
    "python train.py --api-key {} --n 5",
    "--wandb-api-key={}",
    "--use_wandb --wandb_token {}",
    "Authorization: Bearer {}",
    "authorization: token {}1",
    "wandb login {}1",
    "x-api-key: {}",
    "--token {}1",
    "https://user:{}@host.example/path",
    "redis://:{}@10.0.0.1:6379",
    "git clone https://oauth2:{}@github.example/x.git",
    "AWS_SECRET_ACCESS_KEY={}",
    "aws_access_key_id = {}",
    "os.environ['OPENAI_API_KEY'] = \"{}\"",
    'login(token="{}a1")',
    "MYSQL_PASSWORD={}",
    '\\"api_key\\": \\"{}\\"',
    'api_key: "{}',
    "client_secret={}",
)

SHAPES = (
    "hf_{}",
    "sk-{}",
    "sk-ant-{}",
    "ghp_{}",
    "github_pat_{}",
    "glpat-{}",
    "xoxb-{}",
    "AIza{}",
    "eyJ{0}.eyJ{0}.{0}",
)


@given(key=KEYS, carrier=st.sampled_from(CARRIERS), around=st.text(max_size=20))
def test_a_named_secret_is_replaced(key: str, carrier: str, around: str) -> None:
    text = redact_text(f"{around}\n{carrier.format(key)}\n{around}")
    assert key not in text
    assert REDACTED in text


@given(key=KEYS, shape=st.sampled_from(SHAPES))
def test_a_secret_of_known_shape_is_replaced_without_a_name(key: str, shape: str) -> None:
    assert key not in redact_text(f"loading with {shape.format(key)} now")


def test_aws_keys_and_private_keys_are_replaced() -> None:
    assert "AKIAIOSFODNN7EXAMPLE" not in redact_text("key AKIAIOSFODNN7EXAMPLE used")
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\ndef\n-----END RSA PRIVATE KEY-----\nafter"
    assert redact_text(pem) == f"{REDACTED}\nafter"
    assert "MIIabc" not in redact_text("-----BEGIN PRIVATE KEY-----\nMIIabc cut here")
    assert redact_text("A" * 64) == REDACTED, "one line of a key that lost its head"


@pytest.mark.parametrize(
    "text",
    [
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384",
        "data.max_response_length=8192 eos_token_id: 151643 pad_token: <|endoftext|>",
        "export WANDB_API_KEY=$WANDB_API_KEY",
        "WANDB_API_KEY=${WANDB_API_KEY:-}",
        "api_key: null",
        "hf_token=None",
        "api_key=<your key>",
        "step:3 - actor/entropy:0.31 - timing_s/gen:74.020",
        "token: 'the' logprob -0.31",
        "PWD=/root/verl",
        "s3://bucket/path and https://github.com/volcengine/verl/issues/2",
        "secret sauce: none",
        "basic configuration-and-more stays",
        "--password --n 5",
        "tokens_per_second: 5193.2",
        "2025-01-01 12:30:59 INFO http://10.0.0.1:8265/api",
        "model_name_or_path=Qwen/Qwen2.5-7B-Instruct",
        "token: 16384 pw=12ms auth: none",
        "token: bf16",
        "token: v12",
        "/home/ubuntu/verl and /root/verl",
        "/workspace/home_run/x",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@given(st.text(max_size=200))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@given(key=KEYS, carrier=st.sampled_from(CARRIERS))
def test_redacting_twice_is_redacting_once_with_secrets_too(key: str, carrier: str) -> None:
    once = redact_text(carrier.format(key))
    assert redact_text(once) == once


def leaky(key: str) -> Diagnosis:
    """The same secret as a setting, in an error, and quoted without its name by a finding."""
    setting = Setting(key="env.WANDB_API_KEY", value=key, text=key, layer="env", origin=origin(3, "", SCRIPT))
    excerpt = Excerpt(kind=ExcerptKind.ERROR, text=f"refused: {key}", origin=origin(9, ""), context=(f"key {key}",))
    finding = Finding(
        code="lint/any/x",
        kind=FindingKind.LINT,
        severity=Severity.WARNING,
        title=f"`{key}` is not a number",
        evidence=(Evidence(text=f"got {key}", origin=origin(3, key, SCRIPT)),),
    )
    held = full()
    paste = held.paste.model_copy(update={"settings": (setting,), "excerpts": (excerpt,)})
    return held.model_copy(update={"paste": paste, "findings": (finding,), "switch_on": (f"X={key}",)})


@given(KEYS)
def test_no_output_of_a_diagnosis_holds_a_secret(key: str) -> None:
    clean = redact(leaky(key))
    for output in (diagnosis_text(clean), diagnosis_html(clean), answer_json(clean)):
        assert key not in output
    assert REDACTED in diagnosis_text(clean)


@given(KEYS)
def test_no_output_of_a_comparison_holds_a_secret(key: str) -> None:
    changed = SettingDifference(key="trainer.api_key", a=key, b=f"{key}2", touches="unknown")
    told = Finding(
        code="two_changes",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.INFO,
        title="two",
        evidence=(Evidence(text=f"trainer.api_key {key} -> {key}2"),),
    )
    answer = Comparison(verdict=SpeedVerdict.NO_PROOF, reason="so", settings=(changed,), findings=(told,))
    clean = redact(answer)
    for output in (comparison_text(clean), comparison_html(clean), answer_json(clean)):
        assert key not in output


@pytest.mark.parametrize(
    "text", ["token: ab12", "--token ab12", "login(token='ab12')", "pwd=hunter2", "auth: x9y8", "password: 1234"]
)
def test_a_short_secret_beside_a_weak_word_is_replaced(text: str) -> None:
    assert REDACTED in redact_text(text)
    assert not {"ab12", "hunter2", "x9y8", "1234"} & set(redact_text(text).replace("'", " ").replace("=", " ").split())


def test_a_setting_with_a_weak_name_hides_a_short_secret_and_keeps_a_number() -> None:
    held = [Setting(key="token", value=v, text=v, layer="file", origin=origin(1, "")) for v in ("ab12", "16384")]
    clean = redact(Paste(paths=(), settings=tuple(held)))
    assert [setting.text for setting in clean.settings] == [REDACTED, "16384"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/alice/verl/run.sh", "/home/[user]/verl/run.sh"),
        ("/data/home/alice.b/x", "/data/home/[user]/x"),
        ("/Users/alice", "/Users/[user]"),
        (r"C:\Users\alice\x", r"C:\Users\[user]\x"),
        ("file:///home/alice/x", "file:///home/[user]/x"),
    ],
)
def test_the_name_in_a_home_folder_is_hidden(path: str, shown: str) -> None:
    assert redact_text(f"loading {path}: done").startswith(f"loading {shown}")
    given = Paste(
        paths=(path,), settings=(Setting(key="a", value=path, text=path, layer="file", origin=origin(1, "")),)
    )
    clean = redact(given)
    assert "alice" not in clean.model_dump_json()


def test_a_key_of_digits_only_is_hidden_as_a_value_too() -> None:
    setting = Setting(key="env.API_KEY", value=1234567890, text="1234567890", layer="env", origin=origin(1, ""))
    (clean,) = redact(Paste(paths=(), settings=(setting,))).settings
    assert (clean.value, clean.text) == (REDACTED, REDACTED)


def test_a_record_without_secrets_is_not_even_copied() -> None:
    answer = full()
    assert redact(answer) is answer


def test_a_redacted_record_is_still_a_valid_one() -> None:
    clean = redact(leaky("abcdefgh" * 4))
    assert Diagnosis.model_validate(json.loads(clean.model_dump_json())) == clean


@pytest.mark.parametrize(
    "key", ["env.WANDB_API_KEY", "hf_token", "trainer.hub_token", "a.b.password", "AWS_SECRET_ACCESS_KEY"]
)
def test_names_of_secrets_are_known(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize("key", ["max_token", "eos_token", "token", "data.max_tokens", "tokenizer", "secretary"])
def test_names_of_other_things_are_not_secrets(key: str) -> None:
    assert not is_secret_key(key)
