"""A ratio is surer than its steps, and says when a change would lose."""

import pytest
from step_model_cases import ahead, cluster, drawn_work, sides

from steptune.forecast.cluster.parameters import StepParameters
from steptune.forecast.cluster.phases import booked_joined
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.ratio import forecast_ratio
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import forecast_step, step_seconds
from steptune.forecast.cluster.sync import SwitchCosts
from steptune.forecast.cluster.train_side import TrainKnobs
from steptune.forecast.curve import ForecastError


def test_the_baseline_over_itself_is_one_for_sure() -> None:
    made = forecast_ratio(sides(drawn_work(1)), cluster(), cluster())
    assert (made.low, made.mid, made.high) == (1, 1, 1)


def test_a_ratio_is_surer_than_the_step_it_is_made_of() -> None:
    job = sides(drawn_work(1))
    ratio, step = forecast_ratio(job, cluster(3, 2), cluster(4, 2)), forecast_step(job, cluster(4, 2))
    assert ratio.high / ratio.low < step.high_s / step.low_s


def test_a_change_of_regime_is_less_sure_than_one_within_it() -> None:
    job = sides(drawn_work(1))
    within = forecast_ratio(job, cluster(2, 2), cluster(3, 2))
    across = forecast_ratio(job, cluster(2, 2), cluster(2, 2, ahead(2)))
    assert across.mid < 1
    assert across.high / across.low > within.high / within.low


def test_a_step_of_no_time_has_no_ratio() -> None:
    job = sides(drawn_work(1), sync_s=0.0)
    nothing = Sides(parameters=job.parameters.scaled(rollout=0.0, train=0.0), work=job.work)
    with pytest.raises(ForecastError, match="takes no time"):
        forecast_ratio(nothing, cluster(), cluster(4, 4))


def test_shared_devices_pay_for_switching_once_a_step() -> None:
    job = sides(drawn_work(1))
    own = job.parameters
    switching = StepParameters(
        rollout=own.rollout, train=own.train, sync=own.sync, switch=SwitchCosts(to_train_s=0.2, to_rollout_s=0.3)
    )
    made = Sides(parameters=switching, work=job.work)
    shared = Cluster(rollout=RolloutKnobs(num_replicas=2), train=TrainKnobs(num_ranks=2), is_colocated=True)
    apart = Cluster(rollout=shared.rollout, train=shared.train, queue=QueueKnobs())
    assert step_seconds(made, shared) == pytest.approx(step_seconds(made, apart) + 0.5)
    booked = booked_joined(made, shared).phases
    assert [s for (_, phase), s in booked.items() if phase == "mode_switch"] == [0.5, 0.5]
