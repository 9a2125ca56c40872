"""A random-looking value beside a word like key is hidden; hashes, names, paths and numbers stay readable."""

import random
import string

import pytest
from diagnosis_records import SCRIPT, full, origin

from steptune.core.comparison import Comparison, SettingDifference, SpeedVerdict
from steptune.core.finding import Diagnosis, Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Setting
from steptune.report.answer_json import answer_json
from steptune.report.comparison_html import comparison_html
from steptune.report.comparison_text import comparison_text
from steptune.report.diagnosis_html import diagnosis_html
from steptune.report.diagnosis_text import diagnosis_text
from steptune.report.redact import REDACTED, redact, redact_text
from steptune.report.redact_likely import looks_secret

HEX_KEY = "0123456789abcdef0123456789abcdef01234567"
DRAWN = random.Random(7)
KEYS = (
    HEX_KEY,
    "9f86d081-884c-4d65-9a2f-eaa0c55ad015",
    *("".join(DRAWN.choices(string.hexdigits[:16], k=40)) for _ in range(5)),
    *("".join(DRAWN.choices(string.ascii_letters + string.digits, k=24)) for _ in range(5)),
    *("".join(DRAWN.choices(string.ascii_lowercase + string.digits, k=32)) for _ in range(5)),
)
COMMIT = "3c3be62f0a1b2c3d4e5f60718293a4b5c6d7e8f9"
NAMES = (
    "trainer.wandb_key",
    "data.hf_key",
    "wandb.key",
    "trainer.swanlab_key",
    "use_wandb",
    "a.db_password",
    "x.tokens",
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "carrier",
    [
        "--wandb_key {} --n 5",
        "--wandb-key={}",
        "--use_wandb {} \\",
        "use_wandb={}: now logger.wandb.key",
        "--logger.wandb.key {}",
        "password {}",
        "WANDB_API_KEY {}",
        "key={}, n=5",
        "['--wandb_key', '{}']",
        '{{"wandb_key": "{}"}}',
        "the W&B key is {}.",
        "I used {} as my wandb key",
    ],
)
def test_a_random_value_beside_a_key_word_is_hidden(key: str, carrier: str) -> None:
    hidden = redact_text(carrier.format(key))
    assert key not in hidden
    assert REDACTED in hidden
    assert redact_text(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        f"commit {COMMIT}",
        f"OpenRLHF/OpenRLHF@{COMMIT}: the key was renamed",
        f"{COMMIT} token level loss",
        f"verl at {COMMIT}, transformers 4.51.3",
        "--use_wandb True --input_key context_messages --apply_chat_template",
        "data.prompt_key=extra_info_question_text reward_fn_key=data_source_of_gsm8k_v2",
        "tokenizer=Qwen/Qwen2.5-7B-Instruct key=/data/models/DeepSeek-R1-Distill-Qwen-7B/weights",
        "loss_agg_mode=token_level max_tokens=16384 token 0.123456789012345678",
        "KeyError: 'actor_rollout_ref2model3config4'",
        "key_fields: DeepSeek-R1-Distill-Qwen-32B-Instruct",
        "token_file=./keys/0123456789abcdef01234567.txt",
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "value", ["true", "1234567890123456789", "1.5e-06", "global_step_1000_actor", "/a/b/" + HEX_KEY]
)
def test_booleans_numbers_words_and_paths_do_not_look_secret(value: str) -> None:
    assert not looks_secret(value)


def leaky(name: str, key: str) -> Diagnosis:
    """A secret as a setting and quoted by a finding without its name."""
    setting = Setting(key=name, value=key, text=f"'{key}'", layer="override", origin=origin(3, "", SCRIPT))
    finding = Finding(
        code="lint/any/x",
        kind=FindingKind.LINT,
        severity=Severity.WARNING,
        title=f"`{key}` is not a number",
        evidence=(Evidence(text=f"got {key}", origin=origin(3, name, SCRIPT)),),
    )
    held = full()
    paste = held.paste.model_copy(update={"settings": (setting,)})
    return held.model_copy(update={"paste": paste, "findings": (finding,)})


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", NAMES)
def test_no_output_holds_the_value_of_such_a_setting(name: str, key: str) -> None:
    clean = redact(leaky(name, key))
    outputs = [diagnosis_text(clean), diagnosis_html(clean), answer_json(clean)]
    changed = SettingDifference(key=name, a=key, b=True, touches="unknown")
    told = redact(Comparison(verdict=SpeedVerdict.NO_PROOF, reason=f"saw {key}", settings=(changed,), findings=()))
    outputs += [comparison_text(told), comparison_html(told), answer_json(told)]
    assert all(key not in output for output in outputs)
    assert told.settings[0].b is True


@pytest.mark.parametrize("name", ["data.commit", "trainer.tokenizer", "git_sha", "rollout.max_token_len"])
def test_a_hash_under_another_name_stays(name: str) -> None:
    if name == "rollout.max_token_len":
        assert redact(leaky(name, "16384")).paste.settings[0].text == "'16384'"
    else:
        assert redact(leaky(name, COMMIT)).paste.settings[0].value == COMMIT
