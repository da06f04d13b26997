"""Brokers' colours in pages can be told apart, also by those who see fewer colours, and be written on.

Sight without one kind of cone is that of Machado, Oliveira and Fernandes, "A Physiologically-based Model for
Simulation of Color Vision Deficiency" (2009), severity 1; distances are CIE 1976 ΔE*ab, of which 2.3 is just seen.
"""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

SIGHTS = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])


def themes() -> list[dict[str, str]]:
    style = (files("pulsar_barycenter.html_pages") / "base.css").read_text()
    return [
        dict(re.findall(r"--(\w+): (#\w+);", block)) for block in re.findall(r":root \{(\s+--page.*?)\}", style, re.S)
    ]


def linear(colour: str) -> NDArray[np.float64]:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = np.array([int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, sight: str) -> NDArray[np.float64]:
    x = XYZ @ np.clip(np.array(SIGHTS[sight]) @ linear(colour), 0, 1) / WHITE
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2."""
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_brokers_differ_in_every_sight(theme: dict[str, str], sight: str) -> None:
    colours = [lab(theme[f"b{number}"], sight) for number in range(8)]
    assert min(np.linalg.norm(one - other) for one, other in combinations(colours, 2)) > 20
    assert min(np.linalg.norm(one - other) for one, other in combinations(colours[:4], 2)) > 35


@pytest.mark.parametrize("theme", themes(), ids=["light", "dark"])
def test_texts_have_the_contrast_that_small_ones_need(theme: dict[str, str]) -> None:
    for number in range(8):
        assert contrast(theme[f"b{number}"], theme["on"]) >= 4.5
        assert contrast(theme[f"b{number}"], theme["page"]) >= 4.5
    for name in ("ink", "soft", "link", "bad"):
        assert contrast(theme[name], theme["page"]) >= 4.5


def shades() -> list[dict[str, str]]:
    style = (files("pulsar_barycenter.lab.report") / "page.css").read_text()
    return [
        dict(re.findall(r"--(\w+): (#\w+);", block)) for block in re.findall(r":root \{(\s+--h0.*?)\}", style, re.S)
    ]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_in_a_heat_map_more_load_is_seen_as_more_and_overload_stands_out(theme: int, sight: str) -> None:
    found = shades()[theme]
    ramp = [lab(found[f"h{number}"], sight) for number in range(10)]
    steps = np.diff([colour[0] for colour in ramp])
    assert (steps < -2).all() if theme == 0 else (steps > 2).all()
    over, full = lab(found["over"], sight), lab(found["full"], sight)
    assert min(np.linalg.norm(over - each) for each in (*ramp, full)) > 30
    assert min(np.linalg.norm(full - each) for each in ramp) > 30


def test_colours_of_the_dark_scheme_are_muted() -> None:
    """Chroma and lightness of CIE L*a*b*: no area of a dark page glares."""
    found = [lab(themes()[1][f"b{number}"], "all cones") for number in range(8)]
    assert max(float(np.hypot(each[1], each[2])) for each in found) < 65
    assert max(float(each[0]) for each in found) < 82
