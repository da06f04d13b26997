"""Checks twice a second whether the data files of a broker still exist, even if there are no messages.

A broker without its data files must not serve: what it writes would be lost. The objects that write the files refuse
writes themselves (`LedgerFolder.require_there`, `SqliteWorker`). This module informs the broker, which informs clients,
operators and its supervisor.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.broker.periodic import PeriodicTasks
from pulsar_barycenter.metadata.files.data_faults import DataFault

log = structlog.get_logger(__name__)

CHECK_INTERVAL_S: Final = 0.5

DataCheck: TypeAlias = Callable[[], DataFault | None]
"""A function that checks one part of a broker's data files. It runs in a thread and may block. It returns None if there
is no fault.
"""


class DataWatch:
    """Calls each of `checks` every CHECK_INTERVAL_S seconds. If a check finds a final fault, which means that data is
    lost, this calls `on_lost` once with the reason.

    `fault` says, as text, what the last check found wrong; "" if nothing. After a final fault it does not change any
    more.
    """

    def __init__(self, checks: Sequence[DataCheck], on_lost: Callable[[str], None]) -> None:
        self.fault = ""
        self._checks = tuple(checks)
        self._on_lost = on_lost
        self._is_lost = False

    def start(self, tasks: PeriodicTasks) -> None:
        """Begin to check periodically; the work is started as one of `tasks`. If there are no checks, do nothing."""
        if self._checks:
            tasks.start("data check", self.look, lambda: CHECK_INTERVAL_S)

    async def look(self) -> None:
        """Run all checks once, in a thread, and record the result in `fault`. After a final fault, do nothing."""
        if not self._is_lost:
            self._found(await asyncio.to_thread(self._first_fault))

    def _first_fault(self) -> DataFault | None:
        faults = [fault for fault in (check() for check in self._checks) if fault is not None]
        return next((fault for fault in faults if fault.is_final), faults[0] if faults else None)

    def _found(self, found: DataFault | None) -> None:
        before, self.fault = self.fault, "" if found is None else found.text
        if found is None:
            if before:
                log.info("data_usable_again", was=before)
        elif found.is_final:
            self._is_lost = True
            mend = "restore or mount it, and restart the broker; until then the broker would lose what it receives"
            log.error("data_lost", reason=found.text, mend=mend)
            self._on_lost(found.text)
        elif found.text != before:
            log.error("data_not_writable", reason=found.text, mend="make it writable; the broker then continues")
