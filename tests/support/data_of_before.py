"""The data folder in `tests/data/pipeline`, which represents folders of users, and the reports in it."""

from __future__ import annotations

import shutil
from pathlib import Path

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, decode_report
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout

_KEPT = Path(__file__).parents[1] / "data" / "pipeline"
MISSING = _KEPT / "127.0.0.1_8080-0000-6.json"
"""The report that the newest of broker 127.0.0.1:8080 waits for."""


def copied(to: Path) -> PipelineLayout:
    """Copy the data folder to `to` and return it."""
    shutil.copytree(_KEPT / "cluster", to)
    layout = PipelineLayout.of(to)
    layout.create()  # the folders that were empty, which Git does not keep
    return layout


def logged(layout: PipelineLayout) -> list[LocalBrokerData]:
    """The reports in the log and the archive, including the one that waits, in the order of their times."""
    found = [decode_report(file.read_bytes()) for file in layout.data.rglob("*_*-*-*.json")]
    return sorted(found, key=lambda report: report.last_update)
