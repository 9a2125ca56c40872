import pytest

from prospective.frozen import LISTS, SPACES, JobList

MIN_JOBS = {"embedded": 14}


each_list = pytest.mark.parametrize("chosen", LISTS.values(), ids=lambda chosen: chosen.results)


@each_list
def test_the_committed_list_is_what_the_seed_draws(chosen: JobList) -> None:
    assert chosen.frozen() == chosen.drawn()


@each_list
def test_every_space_has_its_jobs_and_every_job_its_candidates(chosen: JobList) -> None:
    jobs = chosen.frozen()
    for space in SPACES:
        mine = [job for job in jobs if job.engine == space.engine]
        assert len(mine) >= MIN_JOBS.get(space.engine, 1)
        assert all(len(job.candidates) == 5 for job in mine)
    assert len({job.name for job in jobs}) == len(jobs)


@each_list
def test_every_drawn_configuration_can_run_and_moves_something(chosen: JobList) -> None:
    spaces = {space.engine: space for space in SPACES}
    for job in chosen.frozen():
        space = spaces[job.engine]
        assert space.problem(job, job.baseline) is None
        for moves in job.candidates:
            assert space.problem(job, job.settings(moves)) is None
            assert moves
            assert all(job.baseline[knob] != value for knob, value in moves.items())


def test_the_forecaster_is_not_told_of_the_disturbance() -> None:
    job = next(job for job in LISTS[1].frozen() if job.disturbance is not None)
    assert job.told().disturbance is None
    assert job.told().baseline == job.baseline


def test_no_job_of_one_campaign_is_a_job_of_another() -> None:
    seeds = [(job.engine, job.seed) for chosen in LISTS.values() for job in chosen.frozen()]
    assert len(set(seeds)) == len(seeds)
