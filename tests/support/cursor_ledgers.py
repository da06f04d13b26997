"""Ledgers of cursors in memory."""

from pulsar_barycenter.ledger.errors import LedgerUnavailableError


class MemoryCursorLedgers:
    """Entries by ledger id. `is_away` makes every call fail."""

    def __init__(self) -> None:
        self.entries: dict[int, bytes] = {}
        self.made: list[tuple[int, str, str]] = []
        self.is_away = False

    def _check(self) -> None:
        if self.is_away:
            raise LedgerUnavailableError("no bookie answers")

    async def last_entry(self, ledger_id: int) -> bytes | None:
        self._check()
        return self.entries.get(ledger_id)

    async def write(self, topic: str, cursor: str, entry: bytes) -> int:
        self._check()
        ledger_id = 1000 + len(self.made)
        self.made.append((ledger_id, topic, cursor))
        self.entries[ledger_id] = entry
        return ledger_id

    async def delete(self, ledger_id: int) -> None:
        self._check()
        self.entries.pop(ledger_id, None)
