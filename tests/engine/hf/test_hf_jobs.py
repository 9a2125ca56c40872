"""A job that names a model folder, from its TOML to the checkpoint: read, started, probed, trained, saved."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_folders import CONTEXT, SPEC, change_json, tiny_folder

from steptune.adapters.embedded import framework as embedded
from steptune.adapters.embedded.render import render_job
from steptune.cli import job_files
from steptune.core.errors import JobError, ModelError, TrialError
from steptune.core.framework import ParityInput
from steptune.core.job import JobSpec
from steptune.core.model import HybridModel, ModelSpec
from steptune.core.pretrained import HfModel
from steptune.engine import offline
from steptune.engine.hf import load_model
from steptune.engine.hf.find import find_model
from steptune.engine.knobs import EngineKnobs
from steptune.engine.offline_work import carry_out, probe
from steptune.engine.orders import FindOrder, ProbeOrder, StartOrder
from steptune.engine.parity import replay
from steptune.engine.run import Run
from steptune.engine.serve import RunFile
from steptune.store.job_file import load_job

pytest.importorskip("tokenizers", reason="the package `tokenizers` is not installed")
torch.set_num_threads(1)

TEXT = """
name = "tiny"
[model]
kind = "hf"
folder = "model"
{model}
[workload]
levels = [1]
num_validation = 6
prompt = "{prompt}"
[sft]
num_steps = {sft}
label_smoothing = 0.0
[algorithm]
prompts_per_step = 2
group_size = 2
max_completion_len = {limit}
{algorithm}
[knobs]
pin = {{ rollout_threads = 1, train_threads = 1, rollout_dtype = "fp32", train_dtype = "fp32", recompute = false }}
"""


def read(tmp_path: Path, **fields: object) -> JobSpec:
    """Return the job with its folder looked at in this process."""
    text = TEXT.format(**{"model": "", "prompt": "{problem}", "sft": 0, "limit": 8, "algorithm": "", **fields})
    (tmp_path / "job.toml").write_text(text)
    return load_job(tmp_path / "job.toml", find_model=lambda wanted: find_model(wanted, tmp_path))


@contextmanager
def started(job: JobSpec, tmp_path: Path, **knobs: object) -> Iterator[Run]:
    order = StartOrder(job=job, cache_dir=str(tmp_path / "cache"), out_path="")
    run = RunFile(
        job=job,
        knobs=EngineKnobs.model_validate({"rollout_threads": 1, "train_threads": 1, **knobs}),
        seed=1,
        forced_lengths=None,
        capture_batches=1,
        start_path=carry_out(order),
        parent_pid=0,
    )
    made = Run(run, tmp_path / "run")
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("sft", [0, 2])
@pytest.mark.parametrize("chat", [False, True])
def test_a_job_trains_from_the_folders_weights_and_saves_a_folder_like_it(tmp_path: Path, sft: int, chat: bool) -> None:
    folder = tiny_folder(tmp_path / "model")
    job = read(tmp_path, sft=sft, model=f"chat = {str(chat).lower()}")
    _, theirs = load_model(folder)
    with started(job, tmp_path) as run:
        same = all(torch.equal(tensor, theirs[name]) for name, tensor in run.loop.model.state_dict().items())
        assert same == (sft == 0)
        assert run.evaluate().num_problems == 6
        made = [run.step() for _ in range(2)]
        assert run.save_model(tmp_path / "out") is None
    assert [o.step for o in made] == [0, 1]
    # log-probs of the rollout are the trainer's at equal weights: same tokens, same softmax over padded rows
    assert all(o.mismatch is not None and o.mismatch.k3 < 1e-6 for o in made)
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (written["bos_token_id"], written["eos_token_id"], written["pad_token_id"]) == (1, 2, 0)
    again = find_model(HfModel(folder=str(tmp_path / "out"), chat=chat), tmp_path)
    assert again.pretrained is not None
    assert job.model.pretrained is not None
    assert again.pretrained.tokenizer_sha256 == job.model.pretrained.tokenizer_sha256
    assert (again.pretrained.context_len, again.pretrained.eos_id, again.pretrained.pad_id) == (CONTEXT, 2, 0)
    assert again.model_copy(update={"pretrained": None}) == job.model.model_copy(update={"pretrained": None})


HYBRID = HybridModel(
    num_layers=2,
    full_attention_every=2,
    d_model=16,
    num_heads=2,
    num_kv_heads=1,
    head_dim=8,
    d_ff=16,
    linear_key_heads=1,
    linear_value_heads=2,
    linear_key_dim=8,
    linear_value_dim=8,
)


@pytest.mark.parametrize("spec", [SPEC, HYBRID], ids=["dense", "hybrid"])
@pytest.mark.parametrize("layout", ["padded", "sorted", "packed"])
def test_padding_that_is_also_the_end_of_sequence_changes_nothing(tmp_path: Path, spec: ModelSpec, layout: str) -> None:
    folder = tiny_folder(tmp_path / "model", spec=spec)
    ends: list[dict[str, torch.Tensor]] = []
    for pad in ("<pad>", "<eos>"):
        change_json(folder / "tokenizer_config.json", pad_token=pad)
        job = read(tmp_path, algorithm="lr = 0.01")
        with started(job, tmp_path, layout=layout) as run:
            for _ in range(2):
                run.step()
            ends.append({name: tensor.clone() for name, tensor in run.loop.model.state_dict().items()})
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_the_run_file_holds_shape_and_hashes_and_the_tuned_file_reads_back(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "model")
    job = read(tmp_path)
    assert job.model.d_model == 16
    assert job.model.pretrained is not None
    assert job.model.pretrained.weights_sha256 in job.model_dump_json()
    assert JobSpec.model_validate_json(job.model_dump_json()) == job
    (tmp_path / "tuned.toml").write_text(render_job(job, {"layout": "packed"}))
    assert load_job(tmp_path / "tuned.toml").model == job.model


def test_the_probe_prices_a_pretrained_job_under_what_its_owner_left_open(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "model")
    curves = probe(ProbeOrder(job=read(tmp_path), out_path=""))
    assert {curve.name for curve in curves} == {
        "decode",
        "prefill",
        "train",
        "logprob",
        "optimizer",
        "handover",
        "load",
    }
    for key in ("rollout_threads", "train_threads", "rollout_dtype", "train_dtype"):
        assert {curve.when[key] for curve in curves if key in curve.when} in ({1}, {"fp32"}), key
    assert {curve.when["recompute"] for curve in curves if curve.name == "train"} == {False}
    # 4 rows of at most 40 positions are a whole step: nothing larger is measured
    assert all(point.x < 800 for curve in curves if curve.name == "train" for point in curve.points)


def test_recorded_batches_of_a_pretrained_job_are_replayed(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "model")
    job = read(tmp_path)
    with started(job, tmp_path) as run:
        run.step()
    start = torch.load(next((tmp_path / "cache").glob("sft-*.pt")), weights_only=True)
    item = ParityInput(settings=EngineKnobs().model_dump(), batches_dir=str(tmp_path / "run" / "batches"))
    replayed = replay(job, item, start, tmp_path / "params.pt")
    end = torch.load(replayed.params_path, weights_only=True)
    trained = run.loop.model.state_dict()
    assert all(torch.allclose(end[name], trained[name], atol=1e-6) for name in end)


def test_rows_longer_than_the_context_are_refused_before_and_during_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_folder(tmp_path / "model", context=48)
    read(tmp_path, limit=8)
    monkeypatch.setattr(job_files, "_find_model", lambda wanted: find_model(wanted, tmp_path))
    monkeypatch.setattr(embedded, "PROMPTS_LOOKED_AT", 200)
    longest = embedded.longest_prompt(load_job(tmp_path / "job.toml", find_model=job_files._find_model))
    fits = 48 - longest
    assert job_files.read_job(tmp_path / "job.toml", [f"algorithm.max_completion_len={fits}"]).model.d_model == 16
    with pytest.raises(JobError) as caught:
        job_files.read_job(tmp_path / "job.toml", [f"algorithm.max_completion_len={fits + 1}"])
    assert str(caught.value) == (
        "prompt and `algorithm.max_completion_len` are longer than the model's context, "
        f"got {longest} + {fits + 1} tokens; allowed: 48 together; hint: use `algorithm.max_completion_len` = {fits}"
    )
    said = r"longer than the model's context, got \d+ \+ 47 tokens; allowed: 48 together"
    with started(read(tmp_path, limit=47), tmp_path) as run, pytest.raises(JobError, match=said):
        run.step()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('kind = "hff"', ["`model.kind`", 'got "hff"', "dense, moe, hybrid, hybrid_moe, hf", "did you mean `hf`?"]),
        ('kind = "hf"', ["`model.folder` or `model.package`", "got neither", "one of the two"]),
        ('kind = "hf"\nfolder = "a"\npackage = "smollm2"', ["got both"]),
        ('kind = "hf"\npackage = "smollm3"', ["`model.package`", "smollm2"]),
        ('kind = "hf"\nfolder = "a"\nd_model = 16', ["unknown key `model.d_model`", "folder, package, chat"]),
        ('kind = "hf"\nfolder = "a"\nchat = 1', ["`model.chat`", "wrong type"]),
    ],
)
def test_a_table_that_names_no_model_says_so(tmp_path: Path, table: str, words: list[str]) -> None:
    (tmp_path / "job.toml").write_text(f'name = "t"\n[model]\n{table}\n')
    with pytest.raises(JobError) as caught:
        load_job(tmp_path / "job.toml")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_prompt_is_for_models_with_text_and_holds_the_problem_once(tmp_path: Path) -> None:
    tiny_folder(tmp_path / "model")
    assert read(tmp_path, prompt="Say {problem} ").workload.prompt == "Say {problem} "
    with pytest.raises(JobError, match="must hold the problem once"):
        read(tmp_path, prompt="Say it")
    (tmp_path / "job.toml").write_text('name = "t"\n[workload]\nprompt = "Say {problem}"\n')
    with pytest.raises(JobError, match="the engine's own vocabulary has no tokens for"):
        load_job(tmp_path / "job.toml")


def test_offline_work_that_never_ends_is_stopped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "OFFLINE_TIMEOUT_S", 0.001)
    framework = embedded.EmbeddedFramework(cache_dir=tmp_path / "cache")
    with pytest.raises(TrialError, match="`find` was stopped, it takes too long, got no end; allowed: 0 s; hint: run"):
        framework.find_model(HfModel(folder=str(tmp_path)))


def order_of(folder: Path, out: Path) -> FindOrder:
    return FindOrder(model=HfModel(folder=str(folder)), cache_dir=str(out.parent), out_path=str(out))


def test_what_another_process_says_of_a_folder_arrives_as_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parents: list[int] = []
    monkeypatch.setattr(offline, "die_with_parent", parents.append)

    def run(order: Any) -> int:
        monkeypatch.setattr("sys.argv", ["offline", order.model_dump_json(), "7"])
        return offline.main()

    out = tmp_path / "out.json"
    assert run(order_of(tiny_folder(tmp_path / "model"), out)) == 0
    assert json.loads(out.read_text())["d_model"] == 16
    code = run(order_of(tmp_path / "none", tmp_path / "other.json"))
    error = embedded._failure("find", code, capsys.readouterr().out)
    assert isinstance(error, ModelError)
    assert "config.json` cannot be read, got No such file or directory; allowed: a Hugging Face" in str(error)
    assert not (tmp_path / "other.json").exists()
    assert isinstance(embedded._failure("find", -9, "ModelError: half"), TrialError)
    assert parents == [7, 7]
