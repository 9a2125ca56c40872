import pytest

from steptune.published.runs import billions_in, published_runs


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 8.0),
        ("Qwen/Qwen3-30B-A3B", 30.0),
        ("Qwen3-0.6B", 0.6),
        ("models/Qwen2.5-1.5B/", 1.5),
        ("deepseek-v3", None),
        ("7B-data/gpt", None),
        ("", None),
    ],
)
def test_sizes_are_read_off_model_names(model: str, size: float | None) -> None:
    assert billions_in(model) == size


def test_every_run_has_a_source_a_time_and_a_quality_that_may_be_shown() -> None:
    runs = published_runs()
    assert len(runs) > 200
    assert len({run.id for run in runs}) == len(runs)
    for run in runs:
        assert run.source
        assert run.quality in ("A", "B")
        assert run.step_time_s or run.tokens_per_s_per_gpu
        assert run.step_time_s is None or run.step_time_s > 0
