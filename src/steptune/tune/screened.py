"""The record of a trial that its replay has ended, and the whole cost of any trial."""

from steptune.core.change import Change
from steptune.core.event import Screened
from steptune.core.trial import Trial, TrialState
from steptune.trial.run import finished_trial
from steptune.tune.context import Context


def screen_cause(screened: Screened) -> str:
    """Return why a trial that its replay ended was stopped."""
    return f"{screened.side}-only replay: {screened.because}"


def screened_out(context: Context, screened: Screened, change: Change, incumbent: Change) -> Trial:
    """Return the record of a trial that its replay ended: no arm ran."""
    return finished_trial(
        (),
        number=screened.number,
        change=change,
        state=TrialState.STOPPED,
        cause=screen_cause(screened),
        incumbent_signature=incumbent.signature,
        wall_s=0.0,
        num_cores=context.job.devices.num_cores,
        load_avg=None,
        devices_ratio=screened.devices_ratio,
    )


def with_cost(trial: Trial, wall_s: float, num_cores: float) -> Trial:
    """Return the trial at its whole price: the replay before it, every start-up and warm-up, the updates replayed."""
    return trial.model_copy(update={"cost_wall_s": wall_s, "cost_device_s": wall_s * num_cores})
