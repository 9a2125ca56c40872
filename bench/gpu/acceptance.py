"""What a file must be to stand in `bench/results/gpu/`: a whole, full-size run on a CUDA device of a known commit.

Speed does not matter and neither do failed checks: a run that lost or failed is a result. What is refused is what
would mislead: a CPU's numbers, tiny sizes, an unknown commit, checks or parts missing without a word.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from gpu.contents import CHECKS, NEEDS_CUDA, PARTS
from gpu.record import GpuResult
from steptune.core.errors import explain

RUN_AGAIN = "run `bash bench/gpu_check.sh OUT.json` again and add the file as it is"
MIN_MEMORY_BYTES_PER_S = 1e11
"""100 GB/s: every CUDA card that can train at all streams more; the CPUs this was written on, a tenth of it."""


def read(text: str) -> tuple[GpuResult | None, list[str]]:
    """Return the file's record, or None and one sentence for everything that is wrong with its form."""
    try:
        return GpuResult.model_validate_json(text), []
    except ValidationError as error:
        return None, [_sentence(e["loc"], e["msg"], e["input"]) for e in error.errors()]


def problems(found: GpuResult) -> list[str]:
    """Return one sentence for every reason not to take ``found`` into `bench/results/gpu/`."""
    return [*_not_a_gpu(found), *_not_this_code(found), *_wrong_checks(found), *_wrong_parts(found)]


def _sentence(location: Iterable[object], message: str, got: object) -> str:
    message = message.removeprefix("Value error, ")
    if "; hint: " in message:
        return message
    where, shown = ".".join(map(str, location)) or "the file", repr(got)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return explain(f"`{where}` is wrong", got=shown, allowed=message[:1].lower() + message[1:], hint=RUN_AGAIN)


def _not_a_gpu(found: GpuResult) -> Iterator[str]:
    machine = found.machine
    if machine.device_kind != "cuda":
        hint = "run it where a CUDA device is; a CPU only proves the script"
        yield explain(
            "this is not a run on a GPU", got=f"device_kind `{machine.device_kind}`", allowed="cuda", hint=hint
        )
        return
    unknown = [n for n in ("capability", "device_bytes", "driver", "cuda") if getattr(machine, n) in (None, "", 0)]
    if unknown or machine.torch.endswith("+cpu"):
        got = f"torch {machine.torch}, unknown: {', '.join(unknown) or 'nothing'}"
        yield explain("a CUDA device is known by its driver", got=got, allowed="all of them", hint=RUN_AGAIN)
    ran = [c.name for c in found.checks if c.name in NEEDS_CUDA and c.outcome != "skip"]
    if not ran:
        got = "every check of streams and kernels skipped"
        yield explain("nothing that only a GPU can do was run", got=got, allowed=", ".join(NEEDS_CUDA), hint=RUN_AGAIN)
    peaks = [arm.peak_bytes for table in found.tables for arm in table.arms]
    if None in peaks:
        yield explain("a CUDA device counts memory", got="an arm without `peak_bytes`", allowed="bytes", hint=RUN_AGAIN)
    if found.ceilings is not None and found.ceilings.memory_bytes_per_s < MIN_MEMORY_BYTES_PER_S:
        got = f"{found.ceilings.memory_bytes_per_s / 1e9:.3g} GB/s"
        allowed = f"{MIN_MEMORY_BYTES_PER_S / 1e9:.3g} GB/s or more"
        yield explain("this memory is a CPU's", got=got, allowed=allowed, hint="use an idle device")


def _not_this_code(found: GpuResult) -> Iterator[str]:
    if found.is_tiny:
        yield explain("tiny sizes measure nothing", got="is_tiny true", allowed="false", hint="run without `--tiny`")
    if found.git_commit is None or found.is_tree_clean is not True:
        got = f"commit {found.git_commit}, clean {found.is_tree_clean}"
        hint = "commit first, then run, then add the file in a commit of its own"
        yield explain("nobody could run this code again", got=got, allowed="a clean commit", hint=hint)


def _wrong_checks(found: GpuResult) -> Iterator[str]:
    counts = Counter(check.name for check in found.checks)
    missing = [name for name in CHECKS if not counts[name]]
    other = [name for name, count in counts.items() if count > 1 or name not in CHECKS]
    if missing or other:
        got = f"missing: {', '.join(missing) or 'none'}; twice or unknown: {', '.join(other) or 'none'}"
        yield explain("every check stands in a file once", got=got, allowed=f"the {len(CHECKS)} checks", hint=RUN_AGAIN)


def _wrong_parts(found: GpuResult) -> Iterator[str]:
    measured = {table.part for table in found.tables} | ({"ceilings"} if found.ceilings else set())
    dropped = {part.part for part in found.dropped}
    silent = [part for part in PARTS if part not in measured | dropped]
    unknown = sorted((measured | dropped) - set(PARTS))
    if silent or unknown:
        got = f"not a word of: {', '.join(silent) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        allowed = "a table, or a reason in `dropped`, for each part"
        yield explain("a part is neither measured nor dropped", got=got, allowed=allowed, hint=RUN_AGAIN)
    failed = {check.name for check in found.checks if check.outcome == "fail"}
    wrong = sorted(part for part in measured & set(PARTS) if failed & set(PARTS[part]))
    if wrong:
        got, allowed = ", ".join(wrong), "only parts whose checks did not fail"
        yield explain("a wrong result has no speed", got=got, allowed=allowed, hint=RUN_AGAIN)
    noiseless = [table.name for table in found.tables if not math.isfinite(table.noise)]
    if noiseless:
        got, allowed = ", ".join(noiseless), "the baseline a second time in every table"
        yield explain("a gain is judged against noise", got=f"none in {got}", allowed=allowed, hint=RUN_AGAIN)
    without = sorted({d.family for d in found.distances} - measured)
    if without or (found.distances and found.ceilings is None):
        got, allowed = ", ".join(without) or "no ceilings", "distances of measured models to measured ceilings"
        yield explain("a distance has two ends", got=got, allowed=allowed, hint=RUN_AGAIN)
