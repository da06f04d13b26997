"""Whether a broker still has its data: looked at twice a second, beside the path of messages.

A broker whose data is gone must not serve: what it writes would be lost with it. The parts that hold the data refuse
writes by themselves (`LedgerFolder.require_there`, `SqliteWorker`); here the broker learns of it, and tells clients,
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
"""Looks at one part of the data, in a thread; may block. None: it is well."""


class DataWatch:
    """Calls `checks` every CHECK_INTERVAL_S, and `on_lost` once, with what is lost, when a fault is final.

    `fault` is what the last look found, the empty text if all is well; a final fault stays.
    """

    def __init__(self, checks: Sequence[DataCheck], on_lost: Callable[[str], None]) -> None:
        self.fault = ""
        self._checks = tuple(checks)
        self._on_lost = on_lost
        self._is_lost = False

    def start(self, tasks: PeriodicTasks) -> None:
        """Check from now on, as one of `tasks`; without checks there is nothing to do."""
        if self._checks:
            tasks.start("data check", self.look, lambda: CHECK_INTERVAL_S)

    async def look(self) -> None:
        """Check once, in a thread."""
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
            mend = "restore it, or mount it, and start the broker anew; until then it would lose what it is sent"
            log.error("data_lost", reason=found.text, mend=mend)
            self._on_lost(found.text)
        elif found.text != before:
            log.error("data_not_writable", reason=found.text, mend="make it writable; the broker goes on by itself")
