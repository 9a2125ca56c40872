"""Levers that are worth next to nothing here, so that nobody spends a day on them."""

from steptune.core.phase import Phase
from steptune.core.profile import Profile
from steptune.diagnose.durations import said
from steptune.diagnose.facts import cost_s

WORTHLESS_FRAC = 0.03
"""Part of the step below which a lever is not worth a trial: runs of one configuration spread by 5 % (S08)."""

LEVERS: tuple[tuple[str, tuple[Phase, ...]], ...] = (
    ("Faster generation", (Phase.ROLLOUT,)),
    ("Faster environments or rewards", (Phase.ENV_WAIT, Phase.REWARD)),
    ("A faster reference pass", (Phase.REF_LOGPROB,)),
    ("A faster old-log-prob pass", (Phase.OLD_LOGPROB,)),
    ("Faster training", (Phase.TRAIN,)),
    ("A faster weight hand-over", (Phase.WEIGHT_SYNC,)),
    ("Faster mode switching", (Phase.MODE_SWITCH,)),
    ("Rarer checkpoints", (Phase.CHECKPOINT,)),
    ("Rarer validation", (Phase.VALIDATE,)),
)
"""What people reach for, and the phases it could shorten at most."""


def cannot_help(profile: Profile) -> tuple[str, ...]:
    """Return one sentence a lever whose measured phases are below `WORTHLESS_FRAC` of the step, with its ceiling.

    A phase that was not measured is not small: it is left out.
    """
    step_s = profile.step_time.value
    if not 0 < step_s < float("inf"):
        return ()
    costs = [(name, cost_s(profile, *phases)) for name, phases in LEVERS]
    return tuple(
        f"{name} cannot help: for free it saves {said(cost)} of {said(step_s)} ({cost / step_s:.1%})"
        for name, cost in costs
        if 0 < cost < WORTHLESS_FRAC * step_s
    )
