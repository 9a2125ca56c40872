"""The style sheet: text stays readable in light, dark and print."""

import re
from importlib.resources import files

import pytest

CSS = files("steptune.report").joinpath("style.css").read_text(encoding="utf-8")

LEAST_CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of normal size (https://www.w3.org/TR/WCAG22/#contrast-minimum)."""


def palettes() -> list[dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", CSS, flags=re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", block)) for block in blocks]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_there_is_a_palette_for_light_dark_and_print() -> None:
    assert len(palettes()) == 3


@pytest.mark.parametrize("palette", palettes(), ids=["light", "dark", "print"])
@pytest.mark.parametrize("name", ["ink", "soft", "good", "bad", "unsure", "link"])
def test_text_stands_out_from_card_and_page(palette: dict[str, str], name: str) -> None:
    assert contrast(palette[name], palette["card"]) >= LEAST_CONTRAST
    assert contrast(palette[name], palette["page"]) >= LEAST_CONTRAST


def test_names_on_phases_stand_out_from_every_fill() -> None:
    fills = re.findall(r"\.(?:phase-[\w., -]+|fill) \{ fill: (#[0-9a-f]{6})", CSS)
    assert len(fills) == 7
    assert all(contrast("#16191c", fill) >= LEAST_CONTRAST for fill in fills)
