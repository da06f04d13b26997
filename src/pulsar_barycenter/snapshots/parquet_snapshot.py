"""A snapshot as one Parquet file, for clusters of any size.

The file has one row for each bundle, with its broker, its namespace and all its values, so that any Parquet reader can
show it. The rest (the columns of brokers, bundles with an assigned but not yet confirmed owner, policies) is JSON in
the file's metadata, under the key `barycenter.snapshot`. Reading returns exactly what was written, bit by bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.load.reports.load_report import RESOURCES
from pulsar_barycenter.load.snapshot.document import PoliciesDocument
from pulsar_barycenter.load.snapshot.extensible_document import TrafficFigures
from pulsar_barycenter.load.snapshot.load_snapshot import (
    BrokerTable,
    BundleTable,
    ExtensibleLoad,
    LoadSnapshot,
    MessageColumns,
    Preallocations,
    namespace_of,
)
from pulsar_barycenter.load.strategy import MemoryDocument

METADATA_KEY: Final = b"barycenter.snapshot"
_LEADER_KEY: Final = b"barycenter.beside"
_VERSION: Final = 1
_FIGURES: Final = tuple(field.name for field in fields(MessageColumns))
_OF_BUNDLES: Final = ("top", "owned")
"""The columns of ExtensibleLoad that have one row for each bundle."""


class LeaderState(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a leader has in addition to its snapshot: `memory` is what shedders keep from one round for the next,
    `configuration` has its keys of broker.conf with their texts.
    """

    memory: MemoryDocument = MemoryDocument()
    configuration: dict[str, str] = {}


class _Rest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The part of a snapshot that is not about bundles. Lists have one item for each broker, in the order of `names`,
    with two exceptions: `namespaces` are all namespaces, and `held` are the bundles that were assigned to brokers and
    are not in their reports yet, each as namespace, index of the broker and bundle.
    """

    version: int = _VERSION
    taken_at: int
    names: list[str]
    versions: list[str | None]
    class_names: list[str | None]
    brokers: dict[str, list[float | int | bool]]
    namespaces: list[str]
    preallocated: dict[str, list[float | int]] | None = None
    held: list[tuple[str, int, str]] = []
    extensible: dict[str, list[float | int | bool]] | None = None
    traffic: TrafficFigures = TrafficFigures.NEWEST
    policies: PoliciesDocument = PoliciesDocument()


@dataclass(frozen=True, slots=True)
class NoSnapshotError(ValueError):
    """The Parquet file is not a snapshot; `problem` says what is missing."""

    problem: str

    def __str__(self) -> str:
        return self.problem


def write_columns(path: Path, snapshot: LoadSnapshot, leader: LeaderState | None = None) -> None:
    """Write a snapshot to a Parquet file, together with the leader's state `leader` if it is given.

    Raises:
        OSError: the file cannot be written.
    """
    table = snapshot_table(snapshot)
    metadata = {**table.schema.metadata, _LEADER_KEY: msgspec.json.encode(leader or LeaderState())}
    pq.write_table(
        table.replace_schema_metadata(metadata),
        path,
        compression="zstd",
        compression_level=1,
        use_dictionary=["broker", "namespace"],
    )


def read_columns(path: Path | BinaryIO) -> tuple[LoadSnapshot, LeaderState]:
    """Return the snapshot in a file that `write_columns` wrote, and the leader's state that was written with it (empty
    if none was).

    Raises:
        NoSnapshotError: the file is not a Parquet file, or not a snapshot.
        PolicyError: a policy in it is not valid.
        OSError: the file cannot be read.
    """
    try:
        table = pq.read_table(path, read_dictionary=["broker", "namespace"])
        leader = decode_json((table.schema.metadata or {}).get(_LEADER_KEY, b"{}"), LeaderState)
        return snapshot_of_table(table), leader
    except OSError as error:
        if error.errno is not None:
            raise
        raise NoSnapshotError(f"{error}".partition("\n")[0]) from error  # Arrow raises it for a damaged page
    except (pa.ArrowException, msgspec.DecodeError, KeyError, UnicodeDecodeError) as error:
        raise NoSnapshotError(f"{error}".partition("\n")[0]) from error


def snapshot_table(snapshot: LoadSnapshot) -> pa.Table:
    """Return the Arrow table that represents a snapshot."""
    bundles = snapshot.bundles
    columns = {
        "bundle": pa.array(bundles.names, pa.string()),
        "broker": pa.DictionaryArray.from_arrays(bundles.owner, pa.array(snapshot.brokers.names, pa.string())),
        "namespace": pa.DictionaryArray.from_arrays(bundles.namespace, pa.array(snapshot.namespaces, pa.string())),
        **{name: pa.array(column) for name, column in _flat(bundles)},
    }
    extensible = snapshot.extensible
    if extensible is not None:
        columns |= {name: pa.array(getattr(extensible, name)) for name in _OF_BUNDLES}
    rest = _Rest(
        taken_at=snapshot.taken_at_ms,
        names=list(snapshot.brokers.names),
        versions=list(snapshot.brokers.versions),
        class_names=list(snapshot.brokers.class_names),
        brokers={name: column.tolist() for name, column in _flat(snapshot.brokers)},
        namespaces=list(snapshot.namespaces),
        preallocated=_preallocated(snapshot.preallocations),
        held=_held(snapshot.preallocations),
        extensible=None
        if extensible is None
        else {
            field.name: getattr(extensible, field.name).tolist()
            for field in fields(ExtensibleLoad)
            if field.name not in (*_OF_BUNDLES, "traffic")
        },
        traffic=TrafficFigures.NEWEST if extensible is None else extensible.traffic,
        policies=PoliciesDocument.of(snapshot.policies),
    )
    return pa.table(columns).replace_schema_metadata({METADATA_KEY: msgspec.json.encode(rest)})


def snapshot_of_table(table: pa.Table) -> LoadSnapshot:
    """Return the snapshot that an Arrow table represents.

    Raises:
        NoSnapshotError: the table does not represent a snapshot.
        msgspec.DecodeError, KeyError: a part is missing.
        PolicyError: a policy in it is not valid.
    """
    document = (table.schema.metadata or {}).get(METADATA_KEY)
    if document is None:
        raise NoSnapshotError(f"the metadata of the file has no key {METADATA_KEY.decode()}")
    rest = decode_json(document, _Rest)
    if rest.version != _VERSION:
        raise NoSnapshotError(f"the snapshot has format version {rest.version}; this program reads version {_VERSION}")
    brokers = _unflat(BrokerTable, {name: _column_of(name, items) for name, items in rest.brokers.items()})
    column_of = {name: table.column(name).to_numpy() for name in table.column_names if name not in _TEXTS}
    extensible = None
    if rest.extensible is not None:
        own = {name: _column_of(name, items) for name, items in rest.extensible.items()}
        of_bundles = {name: column_of.pop(name) for name in _OF_BUNDLES}
        extensible = ExtensibleLoad(**own, **of_bundles, traffic=rest.traffic)
    bundles = BundleTable(
        names=table.column("bundle").to_numpy().tolist(),  # several times faster than to_pylist
        owner=_rows(table, "broker", rest.names),
        namespace=_rows(table, "namespace", rest.namespaces),
        **_unflat(BundleTable, column_of),
    )
    return LoadSnapshot(
        brokers=BrokerTable(
            names=tuple(rest.names), versions=tuple(rest.versions), class_names=tuple(rest.class_names), **brokers
        ),
        bundles=bundles,
        namespaces=tuple(rest.namespaces),
        preallocations=_preallocations(rest, bundles),
        extensible=extensible,
        taken_at_ms=rest.taken_at,
        policies=rest.policies.policies(),
    )


_TEXTS: Final = frozenset({"bundle", "broker", "namespace"})
_COUNTS: Final = frozenset({"topics", "bundle_count", "started_at_ms", "reported_at_ms", "updated_at_ms"})
_FLAGS: Final = frozenset({"persistent", "non_persistent", "suspect", "has_load", "live"})


def _flat(columns: BrokerTable | BundleTable) -> Iterator[tuple[str, Any]]:
    """Yield the name and the array of each column of numbers in a table of brokers or bundles. A two-dimensional column
    yields an array for each of its rows, named after the resource of the row.
    """
    for field in fields(columns):
        value = getattr(columns, field.name)
        if isinstance(value, MessageColumns):
            yield from ((f"{field.name}_{figure}", getattr(value, figure)) for figure in _FIGURES)
        elif isinstance(value, np.ndarray) and value.ndim == 2:
            yield from ((f"{field.name}_{name}", value[row]) for row, name in enumerate(RESOURCES))
        elif isinstance(value, np.ndarray) and field.name not in ("owner", "namespace"):
            yield field.name, value


def _unflat(kind: type[BrokerTable] | type[BundleTable], columns: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with which a table of class `kind` is created, from columns with the names that `_flat` gives
    them.
    """
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in ("latest", "short", "long"):
            found[field.name] = MessageColumns(*(columns[f"{field.name}_{figure}"] for figure in _FIGURES))
        elif field.name in ("usage", "limit"):
            found[field.name] = np.stack([columns[f"{field.name}_{name}"] for name in RESOURCES])
        elif field.name not in ("names", "versions", "class_names", "owner", "namespace"):
            found[field.name] = columns[field.name]
    return found


def _column_of(name: str, items: list[Any]) -> Any:
    return np.array(items, np.bool_ if name in _FLAGS else np.int64 if name in _COUNTS else np.float64)


def _rows(table: pa.Table, name: str, names: list[str]) -> Any:
    """Return an array with the index in `names` of each text in the column `name`."""
    column, value_set = table.column(name), pa.array(names, pa.string())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = [np.zeros(0, np.int32)]
    for chunk in column.chunks:
        indices = pc.index_in(chunk.dictionary, value_set=value_set).fill_null(-1).to_numpy()
        chunks.append(indices[chunk.indices.to_numpy()].astype(np.int32))
    rows = np.concatenate(chunks)
    if len(rows) and rows.min() < 0:
        raise NoSnapshotError(f"column {name} of the table has a name that the metadata of the file does not list")
    return rows


def _preallocated(found: Preallocations | None) -> dict[str, list[float | int]] | None:
    return None if found is None else {"longRate": found.long_rate.tolist(), "topics": found.topics.tolist()}


def _held(found: Preallocations | None) -> list[tuple[str, int, str]]:
    return [] if found is None else sorted((namespace_of(bundle), row, bundle) for row, bundle in found.pairs)


def _preallocations(rest: _Rest, bundles: BundleTable) -> Preallocations | None:
    if rest.preallocated is None:
        return None
    return Preallocations.of(
        np.array(rest.preallocated["longRate"], np.float64),
        np.array(rest.preallocated["topics"], np.int64),
        [(row, bundle) for _, row, bundle in rest.held],
        bundles,
    )
