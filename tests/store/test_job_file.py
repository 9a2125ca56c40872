import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.core.errors import JobError
from steptune.core.job import DenseModel, JobSpec, LossAggregation
from steptune.store.job_file import load_job

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs") / "job.toml"


def load(path: Path, text: str, *overrides: str) -> JobSpec:
    path.write_text('name = "t"\n' + text, encoding="utf-8")
    return load_job(path, overrides)


def complaint(path: Path, text: str, *overrides: str) -> str:
    with pytest.raises(JobError) as caught:
        load(path, text, *overrides)
    return str(caught.value)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads(path: Path) -> None:
    assert load_job(path, find_model=lambda _: DenseModel()).name == path.stem


def test_the_example_leaves_room_for_one_step_off() -> None:
    job = load_job(next(path for path in EXAMPLES if path.stem == "math-dense"))
    assert (job.baseline, job.limits.max_staleness, job.limits.allow_corrections) == ("default", 1, True)
    assert job.algorithm.rollouts_per_step == 128


def test_a_name_is_all_a_job_needs(scratch: Path) -> None:
    assert load(scratch, "") == JobSpec(name="t")


def test_a_sentence_says_what_got_allowed_and_hint(scratch: Path) -> None:
    assert complaint(scratch, "[algorithm]\ngroup_size = 1") == (
        f"`algorithm.group_size` in `{scratch}` is out of range, got 1; allowed: 2 or more; hint: the default is 8"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[algorithm]\ngroup_sise = 4", ["unknown key `algorithm.group_sise`", "did you mean `group_size`?"]),
        ("[model]\ngroup_size = 4", ["unknown key `model.group_size`", "did you mean `algorithm.group_size`?"]),
        ("[limitz]\nx = 1", ["unknown key `limitz`", "did you mean `limits`?"]),
        ("qqqq = 1", ["unknown key `qqqq`", "use one of"]),
        ('[model]\nd_model = "128"', ["`model.d_model`", "wrong type", 'got "128"', "a whole number"]),
        ("[model]\nd_model = 128.0", ["`model.d_model`", "wrong type", "a whole number"]),
        ("[limits]\nallow_corrections = 1", ["`limits.allow_corrections`", "true or false"]),
        ("[model]\nnum_layers = true", ["`model.num_layers`", "wrong type", "got true"]),
        ("[budget]\nmax_trials = 0", ["`budget.max_trials`", "out of range", "got 0", "more than 0"]),
        ("[budget]\nwall_time_s = 0", ["`budget.wall_time_s`", "out of range"]),
        ("[limits]\nmemory_headroom_frac = 1.5", ["`limits.memory_headroom_frac`", "1 or less"]),
        ("[workload]\nlevels = [1, 0]", ["`workload.levels.1`", "got 0", "more than 0"]),
        ("[workload]\nlevels = 3", ["`workload.levels`", "a list, each element a whole number"]),
        ("algorithm = 3", ["`algorithm`", "a table"]),
        ('baseline = "expart"', ["`baseline`", "default, best_practice, expert", "did you mean `expert`?"]),
        ('objective = "steptime"', ["`objective`", "did you mean `step_time`?"]),
        ('[model]\nkind = "mo"', ["`model.kind`", 'got "mo"', "allowed: dense, moe", "did you mean `moe`?"]),
        ('[model]\nkind = "moe"\nd_ff = 8', ["unknown key `model.d_ff`", "d_expert"]),
        ('[model]\nkind = "moe"\ntop_k = 9', ["`model.top_k`", "9 of 8 experts", "1 to 8"]),
        ('[model]\nkind = "moe"\nd_expert = 20', ["`model.d_expert`", "multiple of 8", "got 20", "16 or 24"]),
        ("[model]\nhead_dim = 33", ["`model.head_dim`", "must be even", "got 33", "32 or 34"]),
        ("[knobs.pin]\nlayout = [1]", ["`knobs.pin.layout`", "text in quotes", "got [1]"]),
        ("[algorithm]\nlr = nan", ["`algorithm.lr`", "no usable value", "finite"]),
        ("[budget]\nwall_time_s = inf", ["`budget.wall_time_s`", "no usable value"]),
        ("objective = 1979-05-27", ["`objective`", "no usable value", "1979-05-27"]),
        (
            "[model]\nd_model = 130\nnum_heads = 4",
            ["`model.d_model`", "multiple of `model.num_heads`", "got 130 and 4", "128 or 136"],
        ),
        ("[model]\nd_model = 12\nnum_heads = 4", ["must be even", "12 / 4 = 3", "8 or 16"]),
        (
            "[model]\nnum_heads = 4\nd_model = 128\nnum_kv_heads = 3",
            ["`model.num_heads`", "multiple of `model.num_kv_heads`", "= 2"],
        ),
        ("[algorithm]\nnum_updates = 33", ["`algorithm.num_updates`", "33 updates of 32 prompts", "1 to 32"]),
        ("[algorithm]\noverlong_buffer_len = 40", ["`algorithm.overlong_buffer_len`", "shorter than", "0 to 39"]),
        ("[algorithm]\ndual_clip = 0.9", ["`algorithm.dual_clip`", "more than 1"]),
        (
            '[algorithm.correction]\nkind = "band"\ncap = 0.5',
            ["`algorithm.correction.floor`", "got 0.5 and 0.5", "IcePop"],
        ),
    ],
)
def test_every_mistake_names_its_key_and_the_way_out(scratch: Path, text: str, words: list[str]) -> None:
    message = complaint(scratch, text)
    assert message.count("\n") == 0, message
    assert "; allowed: " in message
    assert "; hint: " in message
    assert str(scratch) in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "../up", "x" * 65, "a b"])
def test_a_name_that_cannot_name_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f"name = {json.dumps(name)}", encoding="utf-8")
    with pytest.raises(JobError, match="cannot name a folder"):
        load_job(path)


def test_a_missing_name_is_one_mistake(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("", encoding="utf-8")
    with pytest.raises(JobError, match=r"^`name` is missing in .* hint: add `name = ...`$"):
        load_job(tmp_path / "job.toml")


def test_an_unusable_name_is_not_also_missing(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("name = nan", encoding="utf-8")
    with pytest.raises(JobError, match=r"^`name` in .* has no usable value, got nan"):
        load_job(tmp_path / "job.toml")


def test_all_mistakes_come_in_one_report(scratch: Path) -> None:
    model = "[model]\nnum_heads = 4\nd_model = 128\nnum_kv_heads = 3\nd_mdl = 1\n"
    text = f"{model}[algorithm]\ngroup_size = 1\nlr = nan\nnum_updates = 99"
    message = complaint(scratch, text)
    assert message.startswith("5 mistakes in ")
    for key in ("model.num_heads", "model.d_mdl", "algorithm.group_size", "algorithm.lr", "algorithm.num_updates"):
        assert message.count(f"`{key}`") == 1, message


def test_a_key_that_is_wrong_itself_is_not_blamed_again_in_a_combination(scratch: Path) -> None:
    # 33 updates of "x" prompts: whether that is impossible is unknown until the prompts are right
    message = complaint(scratch, '[algorithm]\nprompts_per_step = "x"\nnum_updates = 33')
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"name = 1\nlr = ?", ["is not valid TOML", "line 2"]),
        (b'name = "a"\nname = "b"', ["is not valid TOML", "stands twice"]),
        (b"[model]\n[model]", ["is not valid TOML", "stands twice"]),
        (b'name = "\xff"', ["is not UTF-8", "byte 0xff at offset 8"]),
    ],
)
def test_a_file_that_is_no_toml_says_why(tmp_path: Path, content: bytes, words: list[str]) -> None:
    (tmp_path / "job.toml").write_bytes(content)
    with pytest.raises(JobError) as caught:
        load_job(tmp_path / "job.toml")
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_missing_file_and_a_folder_are_job_errors(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="got No such file"):
        load_job(tmp_path / "none.toml")
    with pytest.raises(JobError, match="got Is a directory"):
        load_job(tmp_path)


def test_overrides_win_over_the_file_in_order(scratch: Path) -> None:
    job = load(
        scratch,
        "[algorithm]\ngroup_size = 4",
        "algorithm.group_size=8",
        "algorithm.group_size = 16",
        "baseline=expert",
        'knobs.pin.layout="packed"',
        "workload.levels=[1, 2]",
        "limits.allow_corrections=true",
    )
    assert job.algorithm.group_size == 16
    assert job.baseline == "expert"
    assert job.knobs.pin == {"layout": "packed"}
    assert job.workload.levels == (1, 2)
    assert job.limits.allow_corrections is True


def test_a_wrong_override_is_blamed_on_the_command_line(scratch: Path) -> None:
    assert "`algorithm.group_size` in `--set` is out of range" in complaint(scratch, "", "algorithm.group_size=1")


@pytest.mark.parametrize("text", ["algorithm.lr", "=3", "a b=3", "a.=3", "name.x=3", "baseline='a", "lr=1\nb=2", "x="])
def test_an_override_that_cannot_be_read_is_refused(scratch: Path, text: str) -> None:
    assert "--set" in complaint(scratch, "", text)


def test_dapo_fills_its_defaults_visibly_and_keeps_what_the_user_wrote(scratch: Path) -> None:
    algorithm = load(scratch, '[algorithm]\nkind = "dapo"').algorithm
    # a fifth of 40 tokens
    assert (algorithm.clip_high, algorithm.dynamic_sampling, algorithm.overlong_buffer_len) == (0.28, True, 8)
    assert algorithm.loss_aggregation is LossAggregation.TOKEN_MEAN
    own = load(scratch, '[algorithm]\nkind = "dapo"\nclip_high = 0.3\ndynamic_sampling = false').algorithm
    assert (own.clip_high, own.dynamic_sampling, own.overlong_buffer_len) == (0.3, False, 8)
    grpo = load(scratch, "").algorithm
    assert (grpo.clip_high, grpo.dynamic_sampling, grpo.overlong_buffer_len) == (0.2, False, 0)


def test_dr_grpo_is_one_setting_and_keeps_what_the_user_wrote(scratch: Path) -> None:
    algorithm = load(scratch, '[algorithm]\nkind = "dr_grpo"').algorithm
    assert algorithm.loss_aggregation is LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM
    assert algorithm.scale_advantage == "none"
    own = load(scratch, '[algorithm]\nkind = "dr_grpo"\nscale_advantage = "batch"').algorithm
    assert (own.loss_aggregation, own.scale_advantage) == (algorithm.loss_aggregation, "batch")


def test_a_cap_below_the_floor_is_fine_where_no_floor_is_read(scratch: Path) -> None:
    job = load(scratch, '[algorithm.correction]\nkind = "tis"\ncap = 0.4')
    assert job.algorithm.correction.floor > job.algorithm.correction.cap


def test_the_overlong_buffer_follows_an_overridden_length(scratch: Path) -> None:
    algorithm = load(scratch, '[algorithm]\nkind = "dapo"', "algorithm.max_completion_len=100").algorithm
    assert algorithm.overlong_buffer_len == 20


def test_off_pins_a_knob_to_none(scratch: Path) -> None:
    job = load(scratch, '[knobs.pin]\nrollout_concurrency = "off"\nlayout = "packed"\nthreads = 1\nshare = true')
    assert job.knobs.pin == {"rollout_concurrency": None, "layout": "packed", "threads": 1, "share": True}


def test_a_resolved_job_written_as_json_is_the_same_job(scratch: Path) -> None:
    job = load(scratch, '[algorithm]\nkind = "dapo"\n[knobs.pin]\nx = 1.0\ny = true\nz = "off"')
    again = JobSpec.model_validate_json(job.model_dump_json())
    assert again == job
    assert [type(v) for v in again.knobs.pin.values()] == [float, bool, type(None)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "lr", "pin"]), inner),
    max_leaves=4,
)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(inner) for inner in value) + "]"
    if isinstance(value, float):
        return str(value)
    return json.dumps("off" if value is None else value)


@settings(max_examples=60, deadline=None)
@given(key=st.sampled_from([*JobSpec.model_fields, "algorithm.lr", "knobs.pin.x", "model.kind"]), value=VALUES)
def test_any_value_anywhere_gives_a_job_or_a_job_error(scratch: Path, key: str, value: object) -> None:
    scratch.write_text(("" if key == "name" else 'name = "t"\n') + f"{key} = {toml(value)}\n", encoding="utf-8")
    with suppress(JobError):
        load_job(scratch)


@given(content=st.binary(max_size=30))
def test_any_bytes_give_a_job_or_a_job_error(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    with pytest.raises(JobError):
        load_job(scratch)
