"""Does this trial's change become the incumbent?

ADOPT here only means "carry on from it": a gain that is proven here, or a likely one. What leaves the tool is decided
in `final`, on data that chose nothing. EXTEND is given only where more of the same data could turn it into ADOPT; an
owed guard that never ran, or whose replay cannot tell, is a REJECT, not a reason to wait.
"""

from collections.abc import Sequence

from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Trial, TrialState
from steptune.core.verdict import Verdict
from steptune.decide.beyond_drift import is_beyond_drift, worst_case
from steptune.decide.gain import Gain, interval_of, is_lead, is_longer_step, judge_gain, power_text
from steptune.decide.owed import OWED_AT_TRIAL, OWED_OF_A_LEAD, absent, failures, undecided
from steptune.decide.screen import leads
from steptune.stats.looks import TRIAL_LOOKS
from steptune.stats.noise import worth_frac

Judged = tuple[Outcome, tuple[str, ...]]
"""An outcome and its reasons, one sentence each."""


def judge_trial(trial: Trial, verdicts: Sequence[Verdict], noise: NoiseFloor, replay: Estimate | None = None) -> Judged:
    """Return ADOPT, EXTEND or REJECT for a trial against its incumbent, with reasons (an unusual procedure is one).

    ``replay``: the whole step's ratio as a replay of the one side that the change touches has it.
    """
    outcome, reasons = _judge(trial, verdicts, noise, replay)
    if not trial.alternate_because:
        return outcome, reasons
    return outcome, (*reasons, f"in alternate launches, one arm at a time: {trial.alternate_because}")


def _judge(trial: Trial, verdicts: Sequence[Verdict], noise: NoiseFloor, replay: Estimate | None) -> Judged:
    owed = OWED_AT_TRIAL.get(trial.change.effect)
    if owed is None:
        return Outcome.REJECT, (f"a change of effect `{trial.change.effect}` is never tuned",)
    unfinished = _unfinished(trial)
    if unfinished is not None:
        return unfinished
    failed = failures(verdicts)
    if failed:
        return Outcome.REJECT, failed
    missing = absent(owed, verdicts)
    if missing:
        return Outcome.REJECT, tuple(f"{guard} was not checked, and unknown is not a pass" for guard in missing)
    outcome, reasons = _judge_speed(trial, noise, replay)
    blind = undecided(OWED_OF_A_LEAD, verdicts)
    if outcome is Outcome.ADOPT and blind:
        return Outcome.REJECT, (*reasons, *(f"cannot tell: {v.guard} is inconclusive: {v.because}" for v in blind))
    open_verdicts = undecided(owed, verdicts)
    if outcome is Outcome.REJECT or not open_verdicts:
        return outcome, reasons
    return Outcome.EXTEND, (*reasons, *(f"{v.guard} is inconclusive: {v.because}" for v in open_verdicts))


def _unfinished(trial: Trial) -> Judged | None:
    if trial.state is TrialState.FINISHED:
        return None
    outcome = Outcome.REJECT if trial.state.is_terminal else Outcome.EXTEND
    return outcome, (f"the trial is {trial.state.replace('_', ' ')}" + (f": {trial.cause}" if trial.cause else ""),)


def _judge_speed(trial: Trial, noise: NoiseFloor, replay: Estimate | None) -> Judged:
    worth = worth_frac(noise)
    if worth is None:
        return Outcome.REJECT, ("the noise floor is not known, so no gain may be claimed",)
    if trial.ratio is None:
        return Outcome.REJECT, ("no ratio to the incumbent was measured",)
    if trial.ratio.low is None and trial.ratio.high is None and trial.ratio.n == 1:
        num_steps = sum(len(arm.observations) for arm in trial.arms if arm.label == "candidate")
        return _judge_one_block(trial.ratio, num_steps, noise, replay, worth)
    interval = interval_of(trial.ratio)
    if interval is None:
        return Outcome.REJECT, (f"the ratio is missing a part or impossible: {trial.ratio}",)
    value, low, high = interval
    text = f"ratio to the incumbent {trial.ratio}, noise band {worth:.1%}"
    gain = judge_gain(value=value, low=low, high=high, worth_frac=worth)
    if trial.step_ratio is not None and is_longer_step(trial.step_ratio, worth):
        return Outcome.REJECT, (f"fewer devices, but a longer step: {trial.step_ratio}; {text}",)
    if gain is Gain.FASTER:
        return Outcome.ADOPT, (f"{gain}: {text}",)
    if gain is not Gain.CANNOT_TELL:
        return Outcome.REJECT, (f"{gain}: {text}",)
    tail = TRIAL_LOOKS.tail_of(trial.ratio.n or 0)
    if is_lead(trial.ratio, tail, worth):
        return Outcome.ADOPT, (f"a lead, for the confirmation to prove: {text}",)
    return Outcome.EXTEND, (f"{gain}: {text}; {power_text(trial.ratio, tail, 'pairs')}",)


def _judge_one_block(
    ratio: Estimate, num_steps: int, noise: NoiseFloor, replay: Estimate | None, worth: float
) -> Judged:
    """One block of whole steps proves nothing, but it can bear out a replay's gain, or show one beyond any drift.

    Beside a replay, a hidden loss on the other side that is larger than the block's worst case sends the trial to both
    arms, a smaller one is the confirmation's to find.
    """
    widest = worst_case(num_steps, noise)
    if replay is not None and replay.high is not None and leads(replay, worth):
        slowest = replay.high * widest
        text = f"a replay of its side {replay}, whole steps {ratio.value:.4g}, expected at most {slowest:.4g}"
        if ratio.value <= slowest:
            return Outcome.ADOPT, (f"a lead, for the confirmation to prove: {text}",)
        return Outcome.EXTEND, (f"whole steps do not bear the replay out: {text}",)
    if is_beyond_drift(ratio.value * widest, worth):
        text = f"{ratio.value:.4g} of the incumbent's recorded steps, at most {ratio.value * widest:.4g}"
        return Outcome.ADOPT, (f"a lead beyond any drift, for the confirmation to prove: {text}",)
    return Outcome.EXTEND, (f"one block has no interval: {ratio}",)
