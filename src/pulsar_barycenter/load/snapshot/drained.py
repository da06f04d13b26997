"""Which brokers of a snapshot are drained, and the snapshot without some of its brokers.

A drained broker keeps its bundles until they are moved, and gets new ones only if no other broker may serve them.
If all brokers are drained, none counts as drained: a bundle without an owner is worse than a broker that is not empty.
"""

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import (
    BundleTable,
    ExtensibleLoad,
    Flags,
    Indices,
    Integers,
    LoadSnapshot,
    MessageColumns,
    Preallocations,
)

_OF_BUNDLES: Final = ("top", "owned")
"""The columns of `ExtensibleLoad` that have a row for each bundle."""


def with_drained(snapshot: LoadSnapshot, brokers: frozenset[str]) -> LoadSnapshot:
    """Return the snapshot in which these brokers, and no others, are marked as drained."""
    if snapshot.policies.drained == brokers:
        return snapshot
    return replace(snapshot, policies=replace(snapshot.policies, drained=brokers))


def drained_rows(snapshot: LoadSnapshot) -> Flags | None:
    """Return an array that flags the drained brokers. None: no broker is drained, or all are; then drained brokers are
    treated as all others.

    The array is cached: do not modify it.
    """
    names = snapshot.policies.drained
    if not names:
        return None
    memo, key = snapshot.brokers.memo, ("drained", names)
    if key not in memo:
        flags = np.fromiter((name in names for name in snapshot.brokers.names), bool, len(snapshot.brokers))
        memo[key] = flags if flags.any() and not flags.all() else None
    found: Flags | None = memo[key]
    return found


def without_brokers(snapshot: LoadSnapshot, gone: Flags) -> tuple[LoadSnapshot, Integers, Integers]:
    """Return the snapshot without the brokers that `gone` flags and without their bundles.

    Also returns, for each row of the new tables, the row number in the old table: first for brokers, then for bundles.
    """
    brokers = np.flatnonzero(~gone)
    bundles = np.flatnonzero(~gone[snapshot.bundles.owner])
    place = np.full(len(gone), -1, np.int32)
    place[brokers] = np.arange(len(brokers), dtype=np.int32)
    used, namespace = np.unique(snapshot.bundles.namespace[bundles], return_inverse=True)
    columns = _rows(snapshot.bundles, bundles)
    columns |= {"owner": place[snapshot.bundles.owner[bundles]], "namespace": namespace.astype(np.int32)}
    left = BundleTable(**columns)
    found = replace(
        snapshot,
        namespaces=tuple(snapshot.namespaces[row] for row in used.tolist()),
        brokers=replace(snapshot.brokers, **_rows(snapshot.brokers, brokers)),
        bundles=left,
        preallocations=_preallocations(snapshot, brokers, place, left),
        extensible=None if snapshot.extensible is None else _extensible(snapshot.extensible, brokers, bundles),
    )
    return found, brokers, bundles


def _preallocations(
    snapshot: LoadSnapshot, brokers: Integers, place: Indices, bundles: BundleTable
) -> Preallocations | None:
    known = snapshot.preallocations
    if known is None:
        return None
    pairs = [(int(place[row]), bundle) for row, bundle in known.pairs if place[row] >= 0]
    return Preallocations.of(known.long_rate[brokers], known.topics[brokers], pairs, bundles)


def _extensible(load: ExtensibleLoad, brokers: Integers, bundles: Integers) -> ExtensibleLoad:
    columns = {
        column.name: getattr(load, column.name)[bundles if column.name in _OF_BUNDLES else brokers]
        for column in fields(load)
        if column.name != "traffic"
    }
    return replace(load, **columns)


def _rows(table: Any, rows: Integers) -> dict[str, Any]:
    """Return every column of a table, restricted to these rows. In a column of several dimensions, the rows of the
    table are the last axis.
    """
    return {column.name: _column(getattr(table, column.name), rows) for column in fields(table)}


def _column(column: Any, rows: Integers) -> Any:
    if isinstance(column, np.ndarray):
        return column[..., rows]
    if isinstance(column, MessageColumns):
        return MessageColumns(**_rows(column, rows))
    return tuple(column[row] for row in rows.tolist())
