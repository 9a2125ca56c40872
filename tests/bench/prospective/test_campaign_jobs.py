from prospective.frozen import SPACES, drawn, frozen

MIN_JOBS = {"embedded": 14}


def test_the_committed_list_is_what_the_seed_draws() -> None:
    assert frozen() == drawn()


def test_every_space_has_its_jobs_and_every_job_its_candidates() -> None:
    jobs = frozen()
    for space in SPACES:
        mine = [job for job in jobs if job.engine == space.engine]
        assert len(mine) >= MIN_JOBS.get(space.engine, 1)
        assert all(len(job.candidates) == 5 for job in mine)
    assert len({job.name for job in jobs}) == len(jobs)


def test_every_drawn_configuration_can_run_and_moves_something() -> None:
    spaces = {space.engine: space for space in SPACES}
    for job in frozen():
        space = spaces[job.engine]
        assert space.problem(job, job.baseline) is None
        for moves in job.candidates:
            assert space.problem(job, job.settings(moves)) is None
            assert moves
            assert all(job.baseline[knob] != value for knob, value in moves.items())


def test_the_forecaster_is_not_told_of_the_disturbance() -> None:
    job = next(job for job in frozen() if job.disturbance is not None)
    assert job.told().disturbance is None
    assert job.told().baseline == job.baseline
