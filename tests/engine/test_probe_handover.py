"""The price of new weights: the rollout's part is measured under its own threads and number formats."""

from loop_cases import small_job

from steptune.engine.probe_handover import probe_handover


def test_taking_weights_is_priced_under_every_setting_of_the_rollout() -> None:
    curves = probe_handover(small_job(), [1], ["fp32", "bf16"])
    loads = [curve for curve in curves if curve.name == "load"]
    assert {(c.when["handover"], c.when["rollout_threads"], c.when["rollout_dtype"]) for c in loads} == {
        (handover, 1, dtype) for handover in ("copy", "file") for dtype in ("fp32", "bf16")
    }
    assert all(point.seconds > 0 for curve in loads for point in curve.points)
    given = {(c.when["handover"], c.when["schedule"]) for c in curves if c.name == "handover"}
    assert given == {(h, s) for h in ("copy", "file") for s in ("sync", "one_step_off")} | {("alias", "sync")}
