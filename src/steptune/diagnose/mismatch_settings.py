"""Settings under which a mismatch metric means something else than usual."""

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Setting, SettingValue
from steptune.diagnose.job import Job, mean_of, origin_of, plain_number, setting_text
from steptune.hardware.devices import find_device

TIGHT_CLIP = 0.01
"""Clip range as narrow as the mean log-prob difference of a healthy bf16 job (about 0.01 nat): every ratio that
rounding moves is clipped. Sequence-level methods use 3e-4."""

NEW_FAMILIES = ("blackwell", "ascend", "cdna3", "cdna4")
"""Families for which the public mismatch scales, measured on Hopper and Ampere, are not a baseline."""

_SEQUENCE_LEVEL: dict[str, tuple[SettingValue, ...]] = {
    "loss_fn.sequence_level_importance_ratios": (True,),
    "importance_sampling_level": ("sequence", "sequence_token"),
    "actor_rollout_ref.actor.policy_loss.loss_mode": ("gspo",),
    "advantage_estimator": ("gspo",),
    "trainer.algorithm.policy_loss_type": ("gspo",),
    "actor.importance_sampling_level": ("sequence",),
}
"""Settings, in normal form, that choose ratios of whole answers: NeMo RL, TRL, verl, slime, SkyRL, AReaL."""

_CORRECTIONS = ("loss_fn.use_importance_sampling_correction",)


def tight_clip(job: Job) -> Finding | None:
    """Find a clip range narrower than numeric noise."""
    bounds = [s for s in (job.declared("clip_low"), job.declared("clip_high")) if s is not None]
    tight = [(s, value) for s in bounds if (value := plain_number(s.value)) is not None and 0 < value < TIGHT_CLIP]
    if not tight:
        return None
    said = " and ".join(f"{value:g}" for _, value in tight)
    per_sequence = _sequence_level(job)
    title = f"A clip range of {said} is below numeric noise (about 0.01 nat a token): "
    if per_sequence is None:
        title += "the mismatch that is still harmless shrinks with it"
    else:
        title += "usual for ratios of whole answers, over which the noise averages, but a mean shift of it is clipped"
    settings = [s for s, _ in tight] + ([per_sequence] if per_sequence else [])
    facts = tuple(Evidence(text=setting_text(s), origin=s.origin) for s in settings)
    return _finding("tight_clip", title, facts, Severity.INFO if per_sequence else Severity.WARNING)


def _sequence_level(job: Job) -> Setting | None:
    """The setting by which ratios are those of whole answers (GSPO, arXiv 2507.18071, which clips at 3e-4 and 4e-4)."""
    for key, values in _SEQUENCE_LEVEL.items():
        setting = job.settings.get(key)
        if setting is not None and setting.value in values:
            return setting
    return None


def sampling_params(job: Job) -> Finding | None:
    """Find truncated sampling beside an importance ratio below 1: the ratio is then the kept mass, no mismatch."""
    cut = [s for s in (job.declared("top_p"), job.declared("top_k")) if s is not None and _truncates(s)]
    ratio = job.series("is_ratio_mean")
    if not cut or ratio is None or not mean_of(ratio) < 1:
        return None
    names = " and ".join(setting_text(s) for s in cut)
    title = (
        f"An importance ratio of {mean_of(ratio):.3f} under {names} is the probability mass that sampling keeps, "
        f"not a mismatch: compare log-probs over the same support"
    )
    facts = (
        *(Evidence(text=setting_text(s), origin=s.origin) for s in cut),
        Evidence(text=f"{ratio.key} {mean_of(ratio):g}", origin=origin_of(ratio)),
    )
    return _finding("sampling_params", title, facts, Severity.WARNING)


def unproven_hardware(job: Job) -> Finding | None:
    """Find a device family without public scales in a job that corrects nothing and has logged no mismatch yet."""
    claim = job.paste.devices
    device = find_device(claim.name) if claim is not None and claim.name else None
    settings = [job.settings[key] for key in _CORRECTIONS if key in job.settings]
    off = [s for s in settings if s.value is False]
    if claim is None or device is None or device.family not in NEW_FAMILIES or not off:
        return None
    title = (
        f"{device.name} rounds differently from the devices of the public mismatch scales, and "
        f"`{off[0].key}` is off: take a baseline on this device before any faster setting"
    )
    facts = (
        Evidence(text=f"device {claim.name}", origin=claim.origin),
        Evidence(text=setting_text(off[0]), origin=off[0].origin),
    )
    return _finding("hardware", title, facts, Severity.WARNING)


def _truncates(setting: Setting) -> bool:
    value = plain_number(setting.value)
    if value is None:
        return False
    return 0 < value < 1 if setting.key.lower().replace("-", "_").endswith("top_p") else value > 0


def _finding(code: str, title: str, evidence: tuple[Evidence, ...], severity: Severity) -> Finding:
    return Finding(
        code=f"mismatch/{code}", kind=FindingKind.MISMATCH, severity=severity, title=title, evidence=evidence
    )
