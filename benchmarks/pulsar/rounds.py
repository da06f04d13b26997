"""Loads measured of several systems in turns, A B C C B A, and the medians of the rounds.

Every other round has the reverse order, so that what one system leaves to the disk, or to bookies that they share, does
not always fall into the turn of the same other one.
"""

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.pulsar.loads import Figures, Row
from benchmarks.pulsar.systems import System

_WARM_RUN: Final = 0.5
"""The share of a row that one run to warm up takes."""


def measure(chosen: Mapping[str, Row], systems: Sequence[System], rounds: int, scale: float) -> list[dict[str, object]]:
    """Return a record for each row, system and round."""
    records: list[dict[str, object]] = []
    for name, row in chosen.items():
        for system in [*systems] * row.warm_runs:
            row.run(system, scale=scale * _WARM_RUN)
        for number in range(rounds):
            for system in systems if number % 2 == 0 else reversed(systems):
                load = os.getloadavg()[0]
                figures = row.run(system, scale=scale)
                records.append(
                    {"row": name, "system": system.name, "round": number, "load average": load, "figures": figures}
                )
                shown = ", ".join(f"{key} {value:,.4g}" for key, value in figures.items())
                print(f"{name} {system.name}: {shown} (load average {load:.1f})", file=sys.stderr, flush=True)
    return records


def medians(records: list[dict[str, object]], row: str, system: str) -> Figures:
    of_row: list[Figures] = [
        record["figures"]  # type: ignore[misc]
        for record in records
        if record["row"] == row and record["system"] == system
    ]
    return {figure: statistics.median(each[figure] for each in of_row) for figure in of_row[0]}
