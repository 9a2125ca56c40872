"""Whether the job that the settings describe will fit: the settings as a layout, counted and judged.

Only frameworks whose settings are mapped here are answered. What is missing is named one at a time, in the order in
which a user can give it: a framework, a model, a device, lengths and batches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune.core.errors import DeviceError, explain
from steptune.core.estimate import Estimate, Source
from steptune.core.paste import DeviceClaim, Paste, Setting
from steptune.core.units import BYTES_PER_GIB
from steptune.footprint.fit import Advice, Fit, capacity_of, judge, smallest_change
from steptune.footprint.layout import JobLayout
from steptune.hardware.devices import Device, named_device
from steptune.memory.settings import View, view_of
from steptune.memory.stated.asked import Asked, LayoutError, lacking
from steptune.memory.stated.nemo_rl import nemo_rl_layout
from steptune.memory.stated.trl import trl_layout
from steptune.memory.stated.verl import verl_layout
from steptune.shapes.config import read_shape
from steptune.shapes.registry import named_shape
from steptune.shapes.shape import ModelShape

LAYOUTS: dict[str, Callable[[Asked, int | None], JobLayout]] = {
    "verl": verl_layout,
    "nemo_rl": nemo_rl_layout,
    "trl": trl_layout,
}
"""Frameworks whose settings become a layout."""

DEVICE_KEYS = {
    "verl": ("trainer.n_gpus_per_node", "trainer.nnodes"),
    "nemo_rl": ("cluster.gpus_per_node", "cluster.num_nodes"),
    "trl": ("num_processes",),
}
"""Settings whose product is the number of devices; without the first the others say nothing."""


class DeviceCountError(LayoutError):
    """The caller's number of devices is not what the settings state."""


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
    view: View
    """The settings, which know what was asked of them."""


def expected_memory(
    paste: Paste, *, model: str | None = None, device: str | None = None, num_devices: int | None = None
) -> Expected:
    """Count and judge the job of a paste.

    Args:
        paste: what was read of the job's files.
        model: a public name or the path of a config.json, in place of the settings' own.
        device: a device's name, in place of the one the input names.
        num_devices: how many there are, where the settings do not say.

    Raises:
        LayoutError: the settings lack something; the message names it.
        DeviceCountError: they state another number of devices.
        ModelError: the model's shape is not known.
        DeviceError: no device is named, or its facts are not known.
    """
    view = view_of(paste)
    layout = stated_layout(paste, view, num_devices)
    shape = _shape(view, model)
    found = named_device(_device_name(paste.devices, device))
    capacity = _capacity(found, None if device else paste.devices)
    fit = judge(shape, layout, capacity)
    advice = smallest_change(shape, layout, capacity)
    return Expected(shape=shape, device=found, layout=layout, fit=fit, advice=advice, view=view)


def stated_layout(paste: Paste, view: View, num_devices: int | None = None) -> JobLayout:
    """Return the layout that the settings of a paste, seen as ``view``, describe.

    Raises:
        LayoutError: the framework has no mapping, or a setting that decides bytes is not stated.
        DeviceCountError: ``num_devices`` is not what the settings state.
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
    if num_devices is not None:
        _check_devices(view, num_devices)
    elif view.rule.name == "trl" and paste.devices is not None:
        num_devices = paste.devices.count
    return build(Asked(view=view), num_devices)


def _check_devices(view: View, num_devices: int) -> None:
    """Raise DeviceCountError where the settings state another number of devices."""
    keys = DEVICE_KEYS[view.rule.name]
    stated = {key: number for key in keys if view.is_set(key) and (number := view.number(key)) is not None}
    if keys[0] not in stated or math.prod(stated.values()) == num_devices:
        return
    said = " and ".join(f"`{key}` {number:g}" for key, number in stated.items())
    raise DeviceCountError(
        explain(
            "the number of devices contradicts the settings",
            got=f"`--num-devices {num_devices}` and {said}",
            allowed="one of both",
            hint=f"leave `--num-devices` out, or change the setting with `--set {keys[0]}=N`",
        )
    )


def model_setting(paste: Paste) -> Setting | None:
    """Return the setting that names the model."""
    return _model_of(view_of(paste))


def _model_of(view: View) -> Setting | None:
    found = (view.found(key) for key in view.rule.model_keys)
    return next((one for one in found if one is not None and isinstance(one.value, str)), None)


def _shape(view: View, model: str | None) -> ModelShape:
    """A path is read only where the caller gave it: a path in a log is somebody else's machine."""
    if model is not None:
        path = Path(model)
        return read_shape(path) if path.name == "config.json" or path.is_dir() else named_shape(model)
    stated = _model_of(view)
    if stated is None:
        keys = view.rule.model_keys
        raise lacking(keys[0] if keys else "model", "a public model's name")
    return named_shape(str(stated.value))


def _device_name(claim: DeviceClaim | None, given: str | None) -> str:
    if given:
        return given
    if claim is None or claim.name is None:
        raise DeviceError(
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
