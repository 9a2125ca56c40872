"""Whether the job that the settings describe will fit: the settings as a layout, counted and judged.

Only frameworks whose settings are mapped here are answered. What is missing is named one at a time, in the order in
which a user can give it: a framework, a model, a device, lengths and batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune.core.errors import explain
from steptune.core.estimate import Estimate, Source
from steptune.core.paste import DeviceClaim, Paste, Setting
from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.fit import Advice, Fit, capacity_of, judge, smallest_change
from steptune.footprint.layout import JobLayout
from steptune.hardware.devices import Device, named_device
from steptune.memory.settings import view_of
from steptune.memory.stated.asked import Asked, LayoutError, lacking
from steptune.memory.stated.nemo_rl import nemo_rl_layout
from steptune.memory.stated.trl import trl_layout
from steptune.memory.stated.verl import verl_layout
from steptune.shapes.config import read_shape
from steptune.shapes.registry import named_shape
from steptune.shapes.shape import ModelShape

LAYOUTS: dict[str, Callable[[Asked, int | None], JobLayout]] = {
    "verl": lambda asked, _devices: verl_layout(asked),
    "nemo_rl": lambda asked, _devices: nemo_rl_layout(asked),
    "trl": trl_layout,
}
"""Frameworks whose settings become a layout."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """The answer with what it was counted of."""

    shape: ModelShape
    device: Device
    layout: JobLayout
    fit: Fit
    advice: Advice | None
    """None where it fits, or where nothing helps."""


def expected_memory(
    paste: Paste, *, model: str | None = None, device: str | None = None, num_devices: int | None = None
) -> Expected:
    """Count and judge the job of a paste.

    Args:
        paste: what was read of the job's files.
        model: a public name or the path of a config.json, in place of the settings' own.
        device: a device's name, in place of the one the input names.
        num_devices: how many there are, where the settings do not say (TRL).

    Raises:
        LayoutError: the settings lack something; the message names it.
        ModelError: the model's shape is not known.
        DeviceError: the device's facts are not known.
    """
    layout = stated_layout(paste, num_devices)
    shape = _shape(paste, model)
    found = named_device(_device_name(paste.devices, device))
    capacity = _capacity(found, None if device else paste.devices)
    fit = judge(shape, layout, capacity)
    return Expected(shape=shape, device=found, layout=layout, fit=fit, advice=smallest_change(shape, layout, capacity))


def stated_layout(paste: Paste, num_devices: int | None = None) -> JobLayout:
    """Return the layout that the settings of a paste describe.

    Raises:
        LayoutError: the framework has no mapping, or a setting that decides bytes is not stated.
    """
    build = LAYOUTS.get(paste.framework or "")
    if build is None or not paste.settings:
        raise LayoutError(
            explain(
                "no settings to count bytes of",
                got=f"settings of {paste.framework or 'an unknown framework'}" if paste.settings else "no settings",
                allowed=f"a configuration of {', '.join(LAYOUTS)}",
                hint="give the launch script or the resolved configuration beside the log",
            )
        )
    claimed = paste.devices.count if paste.devices is not None else None
    return build(Asked(view=view_of(paste)), num_devices or claimed)


def model_setting(paste: Paste) -> Setting | None:
    """Return the setting that names the model."""
    view = view_of(paste)
    found = (view.found(key) for key in view.rule.model_keys)
    return next((one for one in found if one is not None and isinstance(one.value, str)), None)


def _shape(paste: Paste, model: str | None) -> ModelShape:
    """A path is read only where the caller gave it: a path in a log is somebody else's machine."""
    if model is not None:
        path = Path(model)
        return read_shape(path) if path.name == "config.json" or path.is_dir() else named_shape(model)
    stated = model_setting(paste)
    if stated is None:
        keys = view_of(paste).rule.model_keys
        raise lacking(keys[0] if keys else "model", "a public model's name")
    return named_shape(str(stated.value))


def _device_name(claim: DeviceClaim | None, given: str | None) -> str:
    if given:
        return given
    if claim is None or claim.name is None:
        raise LayoutError(
            explain(
                "the device decides whether it fits and is not stated",
                got="no device in the input",
                allowed="a device of the table (`H100`, `A100 40GB`, `B200`)",
                hint="name it with `--device`",
            )
        )
    size = claim.memory_gib
    return claim.name if size is None or size != int(size) else f"{claim.name} {size:g}GB"


def _capacity(device: Device, claim: DeviceClaim | None) -> Estimate:
    """A size with decimals is what a driver reported in this very input (`total capacity of 79.15 GiB`)."""
    size = claim.memory_gib if claim is not None else None
    if size is None or size == int(size):
        return capacity_of(device)
    return Estimate(value=size * BYTES_PER_GIB, unit="bytes", source=Source.MEASURED, note="as the input reports it")
