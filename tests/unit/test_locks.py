"""The lock files install with the pip that any Python 3.11 brings."""

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = Path(__file__).parents[2] / "requirements"


def pinned(lock: str) -> dict[str, set[str]]:
    """Return the packages of a lock file by name, each with the extras that its line pins."""
    lines = re.findall(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?==", (LOCKS / lock).read_text(), flags=re.MULTILINE)
    return {canonicalize_name(name): set(extras.split(",")) - {""} for name, extras in lines}


@pytest.mark.parametrize("lock", ["runtime.lock", "dev.lock"])
def test_what_a_package_asks_for_with_extras_is_pinned_with_them(lock: str) -> None:
    """To pip before 25, `coverage==7.1` pins no `coverage[toml]`, and `--require-hashes` then refuses all."""
    packages = pinned(lock)
    installed = {canonicalize_name(each.name): each for each in metadata.distributions()}
    asked = {
        (name, canonicalize_name(needed.name), extra)
        for name in packages.keys() & installed.keys()  # the rest is for other platforms
        for text in installed[name].requires or ()
        if (needed := Requirement(text)).extras
        for extra in needed.extras
        if needed.marker is None or any(needed.marker.evaluate({"extra": each}) for each in {"", *packages[name]})
    }
    assert {(needed, extra) for _, needed, extra in asked if extra not in packages[needed]} == set()
