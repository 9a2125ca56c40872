from collections.abc import Iterable
from typing import Any

from steptune.core.event import Confirmed, RewardTested, TrialEnded
from steptune.core.verdict import Judgement, Verdict
from steptune.tune.conclude import verdicts_on


def said(*verdicts: tuple[str, Judgement, str]) -> tuple[Verdict, ...]:
    return tuple(Verdict(guard=guard, judgement=judged, limit="", because=why) for guard, judged, why in verdicts)


def words(*given: Iterable[Verdict]) -> list[tuple[str, str]]:
    trial, training, confirmation = (tuple(each) for each in given)
    ended: Any = TrialEnded.model_construct(verdicts=trial)
    tested: Any = RewardTested.model_construct(verdicts=training)
    confirmed: Any = Confirmed.model_construct(verdicts=confirmation)
    return [(verdict.guard, verdict.because) for verdict in verdicts_on(ended, tested, confirmed)]


def test_the_worst_word_on_a_guard_is_its_last_and_of_equals_the_latest() -> None:
    passed, failed, unsure = Judgement.PASS, Judgement.FAIL, Judgement.INCONCLUSIVE
    trial = said(("memory", passed, "trial"), ("steady", unsure, "trial"), ("mismatch", failed, "trial"))
    training = said(("length", passed, "training"))
    late = said(("memory", passed, "late"), ("steady", failed, "late"), ("mismatch", passed, "late"))
    assert words(trial, training, late) == [
        ("memory", "late"),
        ("steady", "late"),
        ("mismatch", "trial"),
        ("length", "training"),
    ]
