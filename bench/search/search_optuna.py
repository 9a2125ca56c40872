"""Optuna's samplers as arms: TPE, a Gaussian process, and TPE whose first five trials are our five best forecasts.

They minimise the log of the measured ratio and know the baseline (0). A change that died counts as `DIED`; one that
cannot run is refused and never paid for. Four random trials instead of their ten come first, in their favour: ten cost
more than the whole budget here.
"""

import math
import warnings
from collections.abc import Callable

import optuna
from optuna.samplers import BaseSampler, GPSampler, TPESampler
from search_arms import MAX_ASKS, Arm, change_of, options, top_forecasts

from steptune.core.change import Change
from steptune.core.event import TrialEnded
from steptune.tune.context import Context
from steptune.tune.search_state import SearchState
from steptune.tune.space import build_space

NUM_STARTUP = 4
NUM_SEEDED = 5
DIED = math.log(2.0)
"""Value of a launch that died, as if it took twice the step."""

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)


class OptunaArm:
    """One study."""

    def __init__(self, sampler: BaseSampler, *, is_seeded: bool = False) -> None:
        self.study = optuna.create_study(sampler=sampler)
        self.is_seeded = is_seeded
        self.is_begun = False
        self.asked: optuna.Trial | None = None

    def next(self, context: Context, found: SearchState) -> Change | None:
        """Ask until something new can run."""
        if not self.is_begun:
            self._begin(context)
        for _ in range(MAX_ASKS):
            trial = self.study.ask()
            values = {
                knob: each[trial.suggest_categorical(knob, list(range(len(each))))]
                for knob, each in options(context).items()
            }
            change = change_of(context, values)
            if change is None:
                self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            elif change.signature in found.tried:
                self.study.tell(trial, _value(_event_of(context, change)))
            else:
                self.asked = trial
                return change
        return None

    def tell(self, event: TrialEnded) -> None:
        """Tell the measured ratio."""
        assert self.asked is not None
        self.study.tell(self.asked, _value(event))

    def _begin(self, context: Context) -> None:
        self.is_begun = True
        baseline, choices = context.baseline_settings, options(context)
        ranges = {k: optuna.distributions.CategoricalDistribution(list(range(len(v)))) for k, v in choices.items()}
        start = optuna.trial.create_trial(params=dict.fromkeys(choices, 0), distributions=ranges, value=0.0)
        self.study.add_trial(start)
        for change in top_forecasts(context, build_space(context))[:NUM_SEEDED] if self.is_seeded else []:
            settings = change.applied_to(baseline)
            self.study.enqueue_trial({knob: each.index(settings[knob]) for knob, each in choices.items()})


def _event_of(context: Context, change: Change) -> TrialEnded:
    return next(e for e in context.state.ended if e.trial.change.signature == change.signature)


def _value(event: TrialEnded) -> float:
    ratio = event.ratio_to_baseline
    return DIED if ratio is None else math.log(ratio.value)


OPTUNA_ARMS: dict[str, Callable[[int], Arm]] = {
    "TPE": lambda seed: OptunaArm(TPESampler(seed=seed, n_startup_trials=NUM_STARTUP)),
    "GP": lambda seed: OptunaArm(GPSampler(seed=seed, n_startup_trials=NUM_STARTUP)),
    "TPE, our top 5": lambda seed: OptunaArm(TPESampler(seed=seed, n_startup_trials=NUM_STARTUP), is_seeded=True),
}
VERSION = optuna.__version__
