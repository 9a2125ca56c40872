"""Nearest valid values are valid, nearest, and labelled by what they change."""

from planted import Case, cases, healthy, planted

from steptune.core.finding import Finding
from steptune.core.paste import Paste, Setting
from steptune.core.profile import Origin
from steptune.lint.check import lint
from steptune.readers.config.scalars import parse_scalar

NEAREST = "nearest valid value"


def changed(paste: Paste, line: str) -> Paste:
    """Apply one line of a remedy, in whatever language it is written."""
    bare = line.removeprefix("++").removeprefix("--")
    key, value = (part.strip() for part in (bare.split("=", 1) if "=" in bare else bare.split(" ", 1)))
    known = {s.key.replace("-", "_"): s for s in paste.settings}
    held = known.get(key.replace("-", "_"))
    setting = Setting(
        key=held.key if held else key,
        value=parse_scalar(value),
        text=value,
        layer=held.layer if held else "override",
        origin=Origin(path="x", line=1, key=key),
    )
    kept = [s for s in paste.settings if s.key != setting.key]
    return paste.model_copy(update={"settings": (*kept, setting)})


def finding_of(case: Case, paste: Paste) -> Finding:
    return next(finding for finding in lint(paste) if finding.code == case.code)


def test_every_nearest_value_silences_its_rule_and_adds_no_fault() -> None:
    tried = 0
    for case in cases():
        paste = planted(case)
        before = {finding.code for finding in lint(paste)}
        for remedy in finding_of(case, paste).remedies:
            if remedy.text.startswith(NEAREST):
                after = lint(changed(paste, remedy.lines[0]))
                assert case.code not in {finding.code for finding in after}, (case.code, remedy.lines)
                assert {f.code for f in after if f.severity == "fault"} <= before, (case.code, remedy.lines)
                tried += 1
    assert tried > 60


def test_six_gpus_ask_for_252_or_258_prompts_and_say_that_the_batch_changes() -> None:
    # one sample a prompt on 6 GPUs: 252 and 258 are the neighbours of 256 that 6 divides
    base = healthy("verl_fsdp.sh")
    paste = base.model_copy(update={"settings": tuple(s for s in base.settings if "ppo_mini_batch_size" not in s.key)})
    for line in ("trainer.n_gpus_per_node=6", "actor_rollout_ref.rollout.n=1"):
        paste = changed(paste, line)
    found = next(f for f in lint(paste) if f.code == "lint/verl/batch_not_divisible_by_gpus")
    batches = [r for r in found.remedies if r.lines[0].startswith("data.train_batch_size")]
    assert {r.lines[0] for r in batches} == {"data.train_batch_size=258", "data.train_batch_size=252"}
    assert not any(r.keeps_algorithm for r in batches)


def test_a_micro_batch_may_change_without_changing_what_is_trained() -> None:
    case = next(c for c in cases() if c.code == "lint/verl/mini_not_multiple_of_micro")
    remedies = finding_of(case, planted(case)).remedies
    # 128 prompts x 8 / 8 ranks = 128 samples a rank: 2 and 4 divide them, 3 does not
    assert [r.lines[0].rpartition("=")[2] for r in remedies] == ["2", "4"]
    assert all(r.keeps_algorithm for r in remedies)


def test_a_far_limit_is_found_exactly() -> None:
    case = next(c for c in cases() if c.code == "lint/verl/ref_logprob_budget_below_sequence")
    remedy = finding_of(case, planted(case)).remedies[0]
    assert remedy.lines == ("actor_rollout_ref.ref.log_prob_max_token_len_per_gpu=5120",)
