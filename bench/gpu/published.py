"""What others published of the same three optimisations, printed beside ours. Not comparable, and it says so."""

from typing import NamedTuple

from gpu.record import GpuResult, Ratio

NOT_COMPARABLE = (
    "published numbers are of other models, frameworks, lengths and devices, each measured on its own; "
    "their sum was never measured; only the sign can be compared"
)


class Published(NamedTuple):
    """One number, where it is from, and which of our ratios measures the same thing."""

    what: str
    says: str
    table: str
    candidate: str
    baseline: str


PUBLISHED = (
    Published(
        "packed metadata built once a batch (unsloth#4243)",
        "batch +14.3 %: Qwen3-14B QLoRA, device not stated",
        "dense_update",
        "metadata",
        "none",
    ),
    Published(
        "double-buffered reload (unsloth-zoo#534)",
        "steps/s +8.4, +6.7, +4.6 %: 8B, 14B, 32B on a B200",
        "dense_update",
        "reload",
        "none",
    ),
    Published(
        "MoE routing by one sort (unsloth-zoo#535)",
        "10 to 15 %: gpt-oss-20B, device not stated",
        "moe_update",
        "moe",
        "none",
    ),
)
"""As read in 2026 in the pull requests and https://www.unsloth.ai/blog/nvidia-collab."""


def lines(found: GpuResult) -> list[str]:
    """Return one line per published number with ours beside it."""
    return [f"{p.what}: theirs {p.says}; ours {_shown(_ours(found, p))}" for p in PUBLISHED] + [NOT_COMPARABLE]


def _ours(found: GpuResult, published: Published) -> Ratio | None:
    if found.is_tiny or found.machine.device_kind != "cuda":
        return None
    for table in found.tables:
        for ratio in table.ratios:
            if (table.name, ratio.candidate, ratio.baseline) == published[2:]:
                return ratio
    return None


def _shown(ratio: Ratio | None) -> str:
    if ratio is None:
        return "not measured on a GPU"
    percents = (f"{100 * (x - 1):+.1f}" for x in (ratio.value, ratio.low, ratio.high))
    return "{} % ({} to {})".format(*percents)
