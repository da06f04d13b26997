"""Decides, by a topic's records, whether a Python broker must leave the topic to Java brokers."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pulsar_barycenter.ledger.pulsar_records.cursors_mapping import COMPACTED_LEDGER, COMPACTION
from pulsar_barycenter.ledger.pulsar_records.ledgers_mapping import has_offload
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import ManagedCursorInfo, ManagedLedgerInfo
from pulsar_barycenter.naming.counted import count_of

PENDING_ACKS: Final = "__transaction_pending_ack"
BUFFER_SNAPSHOTS: Final = "__transaction_buffer_snapshot"
_LOGS: Final = "__transaction_log_"


def reasons_not_to_take(
    local_name: str, ledgers: ManagedLedgerInfo, cursors: Mapping[str, ManagedCursorInfo], siblings: Collection[str]
) -> list[str]:
    """Return the reasons, as texts, for which a Python broker must not serve a topic; an empty list if it can serve it.

    `local_name` is the topic's name in its namespace. `cursors` are its durable cursors by name. `siblings` are the
    local names of persistent topics in the same namespace; only those for which `is_of_transactions` returns True are
    needed. All names are decoded.
    """
    return [
        *_offloads(ledgers),
        *_compactions(cursors),
        *_transactions(local_name, siblings),
    ]


def is_of_transactions(local_name: str) -> bool:
    """Return whether the topic with this local name (decoded) is one in which Java brokers store the state of
    transactions.
    """
    return local_name.endswith(PENDING_ACKS) or local_name.startswith((BUFFER_SNAPSHOTS, _LOGS))


def _offloads(ledgers: ManagedLedgerInfo) -> Iterator[str]:
    offloaded = [part.ledgerId for part in ledgers.ledgerInfo if has_offload(part)]
    if offloaded:
        yield f"{count_of(len(offloaded), 'ledger')} offloaded to tiered storage, the first is {offloaded[0]}"


def _compactions(cursors: Mapping[str, ManagedCursorInfo]) -> Iterator[str]:
    compaction = cursors.get(COMPACTION, ManagedCursorInfo())
    for number in compaction.properties:
        if number.name == COMPACTED_LEDGER:
            yield f"its messages were compacted into ledger {number.value} by a Java broker"


def _transactions(local_name: str, siblings: Collection[str]) -> Iterator[str]:
    # A topic has a sibling for each subscription that saw a transaction, and its namespace one for aborted messages.
    if is_of_transactions(local_name):
        yield "it is a topic of Pulsar's transactions"
        return
    pending = sorted(name for name in siblings if name.startswith(f"{local_name}-") and name.endswith(PENDING_ACKS))
    if pending:
        yield f"the topic {pending[0]} exists and may have pending acknowledgements of transactions"
    if any(name.startswith(BUFFER_SNAPSHOTS) for name in siblings):
        yield f"its namespace has {BUFFER_SNAPSHOTS}: messages of the topic may be of transactions that were aborted"
