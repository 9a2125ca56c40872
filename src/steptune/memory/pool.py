"""Two allocators at odds: PyTorch's expandable segments and the memory pool of vLLM's sleep mode cannot meet."""

from collections.abc import Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Paste, Setting
from steptune.memory.classify import Told
from steptune.memory.remedies import uses_sleep
from steptune.memory.settings import View

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF")
"""Where expandable segments are switched on, by torch version and device."""

SOURCE = "https://github.com/pytorch/pytorch/issues/147851"


def pool_finding(paste: Paste, view: View, told: Sequence[Told]) -> Finding | None:
    """Return the conflict, stated by an assertion or standing in the settings."""
    asserted = next((one.excerpt for one in told if one.meaning == "pool_conflict"), None)
    setting = next((one for one in paste.settings if _expands(one)), None)
    if asserted is None and (setting is None or not uses_sleep(view)):
        return None
    evidence = [Evidence(text=" ".join(asserted.text.split())[:200], origin=asserted.origin)] if asserted else []
    if setting is not None:
        evidence.append(Evidence(text=f"{setting.key}={setting.text}", origin=setting.origin))
    return Finding(
        code="memory/pool_conflict",
        kind=FindingKind.MEMORY,
        severity=Severity.FAULT if asserted is not None else Severity.WARNING,
        title="expandable_segments cannot meet vLLM's sleep mode: its memory pool refuses to start",
        evidence=tuple(evidence),
        remedies=(
            Remedy(
                text="Take expandable_segments out of the environment of the engine's process; against fragmentation "
                "use garbage_collection_threshold",
                lines=("export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.6",),
                source=SOURCE,
            ),
        ),
    )


def _expands(setting: Setting) -> bool:
    name = setting.key.removeprefix("env.").rsplit(".", 1)[-1]
    return name in VARIABLES and "expandable_segments:true" in str(setting.value).lower()
