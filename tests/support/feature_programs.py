"""Runs programs that show one feature of a client each."""

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

_COMPATIBILITY = Path(__file__).parents[2] / "docs" / "compatibility.md"

DEADLINE_S = 180
_SHOWN = 3_000
"""How many of the last characters of a program's output a failure shows."""


async def run_feature(*command: str) -> None:
    """Run a program, and fail the test unless the program ends with code 0 within DEADLINE_S."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _, errors = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    except TimeoutError:
        process.kill()
        _, errors = await process.communicate()
        pytest.fail(f"{command} did not end within {DEADLINE_S} s: {errors.decode()[-_SHOWN:]}")
    assert process.returncode == 0, errors.decode()[-_SHOWN:]


def documented_features(heading: str) -> list[str]:
    """Return the names of the features in the table below a heading of docs/compatibility.md."""
    section = _COMPATIBILITY.read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"\w+", row)]
