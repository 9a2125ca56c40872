"""The footprint model as an arm of the memory score: a labelled case as a layout, judged as any job is.

Rules, written before the arm was scored once: what a post does not state has its framework's default where one is
known; a setting that decides and has none takes its most favourable value, and then only *does not fit* is an answer
(`case_layout.py`). Surprise: a case without the model's name or the GPU's memory is not guessed at, though its outcome
may be obvious to a reader.
"""

from steptune.core.errors import DeviceError, ModelError
from steptune.core.estimate import Estimate, Source
from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.fit import REPORTED_FRAC, Fit, capacity_of, judge
from steptune.footprint.layout import JobLayout
from steptune.hardware.devices import named_device
from steptune.published.memory_cases import MemoryCase
from steptune.score.case_layout import engine_layout, given_tokens, train_layout
from steptune.score.memory import Fits
from steptune.shapes.registry import named_shape

OTHER_CARD_FRAC = 0.05
"""A stated size that differs by more than this from the device of that name is another card of the name."""

ANSWERS = {"fits": Fits.YES, "does not fit": Fits.NO, "too close to call": Fits.TOO_CLOSE}


def footprint_answer(case: MemoryCase) -> Fits:
    """Return the footprint's answer about a labelled case."""
    judged = _judged(case)
    if judged is None:
        return Fits.UNKNOWN
    fit, knows_all = judged
    answer = ANSWERS[fit.answer]
    return answer if knows_all or answer is Fits.NO else Fits.UNKNOWN


def footprint_peak_gib(case: MemoryCase) -> float | None:
    """Return its forecast of the highest memory of one GPU; None where a setting that decides is missing.

    Without an engine the card's size does not enter, so it may be unknown.
    """
    has_size = case.gpu_memory_gb is not None or case.placement != "trainer only"
    judged = _judged(case if has_size else case.model_copy(update={"gpu_type": None, "gpu_memory_gb": 80}))
    if judged is None or not judged[1]:
        return None
    return max(phase.total.value for phase in judged[0].phases) / BYTES_PER_GIB


def _judged(case: MemoryCase) -> tuple[Fit, bool] | None:
    """Return the footprint of the case, and whether all that decides is known; None where it cannot be computed."""
    capacity, given = _capacity(case), given_tokens(case)
    try:
        shape = named_shape(case.model)
    except ModelError:
        return None
    if capacity is None or given is None:
        return None
    train = train_layout(case, given, shape.vocab_size)
    if train.tensor * train.pipeline * train.context > train.num_devices:
        return None  # a layout that cannot be: the post leaves something out
    engine, has_engine_facts = engine_layout(case, given)
    layout = JobLayout(train=train, rollout=engine, is_colocated=case.placement != "disaggregated")
    knows_all = given.is_whole and has_engine_facts and (case.stage != "ppo" or case.trained_models > 1)
    return judge(shape, layout, capacity), knows_all


def _capacity(case: MemoryCase) -> Estimate | None:
    if case.gpu_memory_gb is None:
        return None
    if case.gpu_type is not None:
        try:
            device = named_device(f"{case.gpu_type} {case.gpu_memory_gb:g}GB")
            if abs(device.memory_gib / case.gpu_memory_gb - 1) < OTHER_CARD_FRAC:
                return capacity_of(device)
        except DeviceError:
            pass  # the stated memory is enough
    num_bytes = REPORTED_FRAC * case.gpu_memory_gb * BYTES_PER_GIB
    return Estimate(value=num_bytes, unit="bytes", source=Source.PUBLISHED, note="as the post counts it")
