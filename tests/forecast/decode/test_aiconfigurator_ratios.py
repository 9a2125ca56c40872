"""Against a package of the same names and calls, whose seconds are known: rows / (100 x devices) milliseconds."""

import sys
from pathlib import Path

import pytest

from steptune.footprint.layout import RolloutLayout
from steptune.forecast.curve import ForecastError
from steptune.forecast.decode.aiconfigurator import open_engine, package_version, raw_s, scaled
from steptune.forecast.decode.forecast import DecodePoint
from steptune.forecast.decode.terms import Workload

ONE = RolloutLayout(share=0.9, longest=4_096)
FOUR = ONE.model_copy(update={"tensor": 4})
WORK = Workload(rows=64, prompt=1_024, answer=1_024)
FILES = {
    "common": 'DefaultHFModels = {"Qwen/Qwen3-32B", "Qwen/Qwen3-32B-FP8", "meta-llama/Meta-Llama-3.1-70B"}',
    "perf_database": """
loads = []
def resolve_query_version(system, backend, version):
    assert version == "current"
    return "9.9"
def get_database_view(system, backend, version, database_mode):
    loads.append(database_mode)
    return database_mode
""",
    "config": """
class RuntimeConfig:
    def __init__(self, **given): self.__dict__.update(given)
""",
    "config_builders": """
def build_model_config(tensor, pipeline, data, shards, expert, **modes):
    assert shards * expert == tensor * data
    return tensor * pipeline * data, modes
""",
    "models": "def get_model(path, made, backend): return path, *made",
    "backends/factory": """
class Column:
    def __init__(self, value): self.iloc = [value]
class Summary:
    def __init__(self, tpot): self.tpot = tpot
    def get_summary_df(self): return {"tpot": Column(self.tpot), "ttft": Column(10 * self.tpot)}
class Backend:
    def run_agg(self, model, database, config, ctx_tokens):
        path, devices, modes = model
        needs_bf16 = path.endswith("70B") and not modes["fmha_quant_mode"]
        if needs_bf16 or modes["gemm_quant_mode"] == "fp8" or (devices == 4 and database == "SILICON"):
            raise RuntimeError("no kernel of that name\\nand much more")
        return Summary(config.batch_size / devices / 100)
def get_backend(name): return Backend()
""",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"__init__": "", **FILES, "backends/__init__": ""}.items():
        file = tmp_path / "aiconfigurator_core" / "sdk" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "aiconfigurator_core" / "__init__.py").touch()
    about = tmp_path / "aiconfigurator_core-9.9.9.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text("Metadata-Version: 2.1\nName: aiconfigurator-core\nVersion: 9.9.9\n")
    for name in [name for name in sys.modules if name.startswith("aiconfigurator_core")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("package")
def test_a_ratio_is_put_on_the_scale_of_what_was_measured() -> None:
    engine = open_engine(model="Qwen/Qwen3-32B", device="H100", engine="vllm")
    measured = DecodePoint(layout=ONE, work=WORK, seconds=0.032)  # 50 times the package's 0.64 ms
    found = scaled(engine, [measured]).seconds(FOUR, WORK)
    assert found.value == pytest.approx(0.008)
    assert "9.9.9" in found.note
    assert found.low is not None
    assert found.low < 0.008


@pytest.mark.usefixtures("package")
def test_tables_are_loaded_once_however_often_they_are_asked() -> None:
    engine = open_engine(model="Qwen/Qwen3-32B", device="H200", engine="sglang")
    database = sys.modules["aiconfigurator_core.sdk.perf_database"]
    before = len(database.loads)
    for rows in range(1, 20):
        raw_s(engine, ONE, Workload(rows=rows, prompt=10, answer=10))
    assert len(database.loads) - before <= 1


@pytest.mark.usefixtures("package")
def test_prefill_is_asked_for_by_its_name() -> None:
    engine = open_engine(model="Qwen/Qwen3-32B", device="H100", engine="vllm")
    assert raw_s(engine, ONE, WORK, kind="prefill") == pytest.approx(10 * raw_s(engine, ONE, WORK))
    first = DecodePoint(layout=ONE, work=WORK, seconds=1.0)
    assert scaled(engine, [first], kind="prefill").seconds(FOUR, WORK).value == pytest.approx(0.25)


@pytest.mark.usefixtures("package")
def test_a_model_is_known_by_its_shape_where_the_package_spells_it_otherwise() -> None:
    assert open_engine(model="Llama-3.1-70B", device="H100", engine="vllm").model == "meta-llama/Meta-Llama-3.1-70B"
    assert open_engine(model="me/Qwen3-32B-tuned", device="H100", engine="vllm").model == "Qwen/Qwen3-32B"


@pytest.mark.usefixtures("package")
def test_what_the_package_does_not_know_is_refused_with_what_to_measure() -> None:
    with pytest.raises(ForecastError, match=r"model has no data.*gemma.*measure the time between tokens"):
        open_engine(model="google/gemma-2-9b", device="H100", engine="vllm")
    with pytest.raises(ForecastError, match=r"device has no data.*MI300X.*measure"):
        open_engine(model="Qwen/Qwen3-32B", device="MI300X", engine="vllm")
    with pytest.raises(ForecastError, match=r"engine has no data.*vlm.*did you mean `vllm`"):
        open_engine(model="Qwen/Qwen3-32B", device="H100", engine="vlm")


@pytest.mark.usefixtures("package")
def test_attention_that_was_not_measured_in_the_checkpoints_precision_is_taken_in_bf16() -> None:
    engine = open_engine(model="Llama-3.1-70B", device="H100", engine="vllm")
    assert raw_s(engine, ONE, WORK) == pytest.approx(0.64e-3)


@pytest.mark.usefixtures("package")
def test_a_missing_kernel_is_refused_in_one_line() -> None:
    engine = open_engine(model="Qwen/Qwen3-32B", device="H100", engine="vllm", products="fp8")
    with pytest.raises(ForecastError, match=r"Qwen3-32B.*h100_sxm.*no kernel of that name") as caught:
        scaled(engine, [DecodePoint(layout=ONE, work=WORK, seconds=0.03)])
    assert "\n" not in str(caught.value)


def test_without_the_extra_the_refusal_says_how_to_install_it() -> None:
    if package_version() is not None:
        pytest.skip("it is installed here")
    with pytest.raises(ForecastError, match=r"pip install 'steptune\[aiconfigurator\]'"):
        open_engine(model="Qwen/Qwen3-32B", device="H100", engine="vllm")
