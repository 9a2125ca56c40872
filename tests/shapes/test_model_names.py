import pytest

from steptune.core.errors import ModelError
from steptune.published.runs import published_runs
from steptune.shapes.registry import find_model, models, named_shape


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("/models/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b"),
        ("qwen2.5-math-7b", "qwen2.5-7b"),
        ("Qwen3-30B (TP2 replicas)", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("unsloth/DeepSeek-V3-0324-BF16", "deepseek-v3"),
        ("DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-r1-distill-qwen-1.5b"),
        ("DeepSeek-R1", "deepseek-v3"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("LLaMA2 70B", "llama-2-70b"),
        ("~/ckpt/Qwen_Qwen3-8B/", "qwen3-8b"),
        ("GLM-4.5-Air 106B-A12B", "glm-4.5-air"),
        ("zai-org/GLM-4.5", "glm-4.5"),
        ("GLM-5 744B-A40B", "glm-5"),
        ("deepseek-ai/DeepSeek-V3.2", "deepseek-v3.2"),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "nemotron-3-super-120b-a12b"),
    ],
)
def test_names_as_people_write_them(text: str, name: str) -> None:
    found = find_model(text)
    assert found is not None
    assert found.names[0] == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.6B",
        "Qwen2.5-7B-4layers",
        "GLM-4.5 dummy",
        "GLM-5.2",
        "deepseek-v3-5layer",
        "Qwen3-8B-eagle3",
        "Qwen3-80B",
        "xqwen3-8b",
    ],
)
def test_a_changed_or_unknown_model_is_not_the_one_it_is_called_after(text: str) -> None:
    assert find_model(text) is None


def test_an_unknown_name_is_refused_with_a_near_one() -> None:
    with pytest.raises(ModelError, match=r"got `Qwen/Qwen2\.5-8B`.*did you mean `qwen2\.5-"):
        named_shape("Qwen/Qwen2.5-8B")
    with pytest.raises(ModelError, match=r"config\.json"):
        named_shape("Snowball 67B-A2B")


def test_every_name_leads_to_its_own_row() -> None:
    for model in models():
        for name in model.names:
            found = find_model(name)
            assert found is not None
            assert found.names == model.names


def test_nine_in_ten_published_runs_name_a_known_model() -> None:
    names = [run.model for run in published_runs() if run.model]
    known = [name for name in names if find_model(name) is not None]
    assert len(known) >= 0.9 * len(names)
