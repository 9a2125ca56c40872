from paste_cases import gpus, paste, settings, step, work

from steptune.core.paste import Paste
from steptune.diagnose.job import read_job
from steptune.diagnose.neighbours import MAX_NEIGHBOURS, neighbours


def llama8b(**more: object) -> Paste:
    profile = step({"rollout": 60.0, "train": 40.0}, placement="colocated", work=work(64, 32))
    return paste(
        profile,
        framework="nemo_rl",
        settings=settings(policy__model_name="meta-llama/Llama-3.1-8B-Instruct"),
        devices=gpus("H100", 16),
        **more,
    )


def test_the_nearest_run_is_the_same_job() -> None:
    near = neighbours(read_job(llama8b()))
    assert len(near) == MAX_NEIGHBOURS
    assert near[0].framework == "nemo_rl"
    assert "8B" in near[0].model
    assert "H100" in near[0].gpus
    assert near[0].source
    assert near[0].step_time_s is not None


def test_what_differs_is_said_with_both_values() -> None:
    smaller = llama8b().model_copy(update={"devices": gpus("H100", 8)})
    assert any("devices" in text and "(yours 8)" in text for n in neighbours(read_job(smaller)) for text in n.differs)


def test_another_class_of_model_is_no_neighbour() -> None:
    large = llama8b().model_copy(update={"settings": settings(policy__model_name="meta-llama/Llama-3.1-70B")})
    assert all("8B" not in n.model for n in neighbours(read_job(large)))


def test_without_a_model_three_features_must_agree() -> None:
    unnamed = llama8b().model_copy(update={"settings": ()})
    assert neighbours(read_job(unnamed))
    no_device = unnamed.model_copy(update={"devices": None})
    assert neighbours(read_job(no_device)) == ()


def test_too_little_in_common_is_no_neighbour() -> None:
    assert neighbours(read_job(paste(step({"rollout": 1.0})))) == ()
    assert neighbours(read_job(paste(framework=None, devices=gpus("H100", 8)))) == ()
    odd = paste(framework="other", devices=gpus("RTX 3090", 1), settings=settings(model_name_or_path="x/y-1000B"))
    assert neighbours(read_job(odd)) == ()
