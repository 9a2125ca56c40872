"""One arm: TRL's own `GRPOTrainer` on forced lengths, held between steps, that tells where each step's time went.

Nothing of TRL is replaced but what ends a completion; its methods are wrapped with clocks. Surprise: a step's lengths
are told by the parent, so that incumbent and candidate do the same steps whenever each was started.
"""

import json
import tempfile
import time
from itertools import pairwise
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
import trl
from same_work import problems
from theirs import llama_like, numbered_tokenizer, spell, verified

from prospective.job import Job
from prospective.step_lengths import num_rows, step_lengths
from prospective.trl_messages import GenerateCall, MicroPass, StepTimes
from prospective.trl_probe import probe
from prospective.trl_space import job_spec
from steptune.adapters.embedded.baselines import work_arguments
from steptune.engine.produce import TOKENIZER

MAX_STEPS = 10_000
"""More than any arm runs: the parent ends it."""


class Clocks:
    """What one step's pieces took so far."""

    def __init__(self) -> None:
        self.step = 0
        self.began_s = self.backward_end_s = self.prepare_s = 0.0
        self.calls: list[GenerateCall] = []
        self.micro: list[MicroPass] = []
        self.forward: tuple[int, int, float] = (0, 0, 0.0)
        self.layers_began_s = self.layers_s = self.forward_layers_s = 0.0

    def enter_layers(self) -> None:
        """Note that the first layer begins."""
        self.layers_began_s = time.perf_counter()

    def leave_layers(self) -> None:
        """Note that the last layer has ended."""
        self.layers_s = time.perf_counter() - self.layers_began_s

    def begin(self, step: int) -> None:
        """Start a step's clock."""
        self.step, self.prepare_s, self.calls, self.micro = step, 0.0, [], []
        self.began_s = time.perf_counter()

    def end(self) -> StepTimes:
        """Return the step."""
        now_s = time.perf_counter()
        return StepTimes(
            step=self.step,
            seconds=now_s - self.began_s,
            prepare_s=self.prepare_s,
            calls=tuple(self.calls),
            micro=tuple(self.micro),
            optimizer_s=now_s - self.backward_end_s,
        )


class Arm:
    """The arm's end of the line: the trainer asks here whether the next step may run."""

    def __init__(self, line: Connection, job: Job, clocks: Clocks) -> None:
        self.line, self.job, self.clocks = line, job, clocks
        self.trainer: Any = None
        self.allowed: list[int] = []
        self.done: list[StepTimes] = []

    def before_step(self) -> bool:
        """Wait for leave to run a step; False when the parent is done."""
        while not self.allowed:
            self.line.send([step.model_dump() for step in self.done])
            self.done = []
            try:
                word, steps = self.line.recv()
            except EOFError:
                return False
            if word == "probe":
                self.line.send([p.model_dump() for p in probe(self.trainer, self.clocks, self.job, steps)])
            else:
                self.allowed = list(steps)
        self.clocks.begin(self.allowed.pop(0))
        return True

    def after_step(self) -> None:
        """Book a step."""
        self.done.append(self.clocks.end())


def run_arm(address: str, name: str, job_json: str, settings: dict[str, Any]) -> None:
    """Dial, build the trainer, and train while the parent allows it."""
    job, clocks = Job.model_validate_json(job_json), Clocks()
    torch.set_num_threads(settings["num_threads"])
    with Client(address, "AF_UNIX") as line, tempfile.TemporaryDirectory() as folder:
        arm = Arm(line, job, clocks)
        try:
            line.send((name, "", 0))
            arm.trainer = build(job, settings, Path(folder), arm, clocks)
            arm.trainer.train()
        except SystemExit:
            return
        except Exception as error:  # the parent must hear of it: it is a miss, not a hang
            line.send(json.dumps({"error": repr(error)}))
            raise


def build(job: Job, settings: dict[str, Any], folder: Path, arm: Arm, clocks: Clocks) -> Any:
    """Return the trainer with clocks on it."""
    spec = job_spec(job)
    model = llama_like(spec)
    tasks = problems(spec, 1)
    rows = {"prompt": [spell(TOKENIZER.encode_prompt(t.text)) for t in tasks], "answer": [t.answer for t in tasks]}
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=verified,
        args=arguments(job, settings, folder),
        train_dataset=datasets.Dataset.from_dict({name: values * 64 for name, values in rows.items()}),
        processing_class=numbered_tokenizer(),
        callbacks=[_holding(arm)],
    )
    _clock_generation(trainer, model, job, clocks)
    _clock_training(trainer, clocks)
    return trainer


def arguments(job: Job, settings: dict[str, Any], folder: Path) -> Any:
    """Return `GRPOConfig`: the job's work, the arm's settings, nothing logged or saved."""
    rows, calls = settings["per_device_train_batch_size"], settings["generation_calls"]
    work = work_arguments(job_spec(job)) | {
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": num_rows(job) // rows,
        "steps_per_generation": num_rows(job) // calls // rows,
        "gradient_checkpointing": settings["gradient_checkpointing"],
        "bf16": settings["bf16"],
    }
    quiet = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    quiet |= {"max_steps": MAX_STEPS, "shuffle_dataset": False, "logging_steps": MAX_STEPS}
    return trl.GRPOConfig(output_dir=str(folder), dataloader_pin_memory=False, **quiet, **work)


def _holding(arm: Arm) -> Any:
    class Hold(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
            if not arm.before_step():
                raise SystemExit(0)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
            arm.after_step()

    return Hold()


def _clock_generation(trainer: Any, model: Any, job: Job, clocks: Clocks) -> None:
    """End every row at its length and time every iteration."""
    plain = model.generate

    def generate(**kwargs: Any) -> Any:
        rows, prompt_len = kwargs["input_ids"].shape
        first = sum(call.rows for call in clocks.calls)
        lengths = step_lengths(job, clocks.step)[first : first + rows]
        return timed_generate(plain, kwargs, torch.tensor(lengths), clocks.calls, prompt_len)

    model.generate = generate
    model.plain_generate = plain
    prepare = trainer._generate_and_score_completions

    def timed(inputs: Any) -> Any:
        start_s = time.perf_counter()
        made = prepare(inputs)
        clocks.prepare_s += time.perf_counter() - start_s
        return made

    trainer._generate_and_score_completions = timed


def timed_generate(
    plain: Any, kwargs: dict[str, Any], lengths_B: torch.Tensor, into: list[GenerateCall], prompt_len: int
) -> Any:
    """Call ``plain`` with forced lengths and append what it took."""
    marks: list[float] = []

    def force(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        marks.append(time.perf_counter())
        ends_B = lengths_B == ids.shape[1] - prompt_len + 1
        scores[:, TOKENIZER.eos_id] = -torch.inf
        scores[ends_B] = -torch.inf
        scores[ends_B, TOKENIZER.eos_id] = 0.0
        return scores

    start_s = time.perf_counter()
    made = plain(**kwargs, logits_processor=[force])
    end_s = time.perf_counter()
    into.append(
        GenerateCall(
            rows=len(lengths_B),
            prompt_len=prompt_len,
            prefill_s=marks[0] - start_s,
            iterations_s=tuple(b - a for a, b in pairwise(marks)),
            seconds=end_s - start_s,
        )
    )
    return made


def _clock_training(trainer: Any, clocks: Clocks) -> None:
    plain_loss, plain_backward = trainer.compute_loss, trainer.accelerator.backward
    layers = trainer.model.model.layers
    layers[0].register_forward_pre_hook(lambda *_: clocks.enter_layers())
    layers[-1].register_forward_hook(lambda *_: clocks.leave_layers())

    def compute_loss(model: Any, inputs: Any, **kwargs: Any) -> Any:
        start_s = time.perf_counter()
        made = plain_loss(model, inputs, **kwargs)
        rows, width = inputs["completion_ids"].shape
        clocks.forward = rows, width + inputs["prompt_ids"].shape[1], time.perf_counter() - start_s
        clocks.forward_layers_s = clocks.layers_s  # the backward's own repetition would overwrite it
        return made

    def backward(*args: Any, **kwargs: Any) -> None:
        start_s = time.perf_counter()
        plain_backward(*args, **kwargs)
        clocks.backward_end_s = time.perf_counter()
        rows, width, forward_s = clocks.forward
        took_s = clocks.backward_end_s - start_s
        layers_s = clocks.forward_layers_s
        clocks.micro.append(
            MicroPass(rows=rows, width=width, forward_s=forward_s, layers_s=layers_s, backward_s=took_s)
        )

    trainer.compute_loss, trainer.accelerator.backward = compute_loss, backward
