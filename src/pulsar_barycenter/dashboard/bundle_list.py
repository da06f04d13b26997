"""The heaviest bundles of a broker or of a namespace, with their owners. Pure."""

import msgspec

from pulsar_barycenter.load.snapshot.document import SnapshotDocument, owned_bundles


class BundleFigures(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A bundle with its owner and its load: rate in msg/s and throughput in bytes/s are in + out, None if no broker
    reports them.
    """

    bundle: str
    broker: str
    msg_rate: float | None
    msg_throughput: float | None
    topics: int | None


class BundleList(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The heaviest bundles of a query, heaviest first; `count` is the number of all bundles that match the query."""

    count: int
    bundles: list[BundleFigures]


def listed_bundles(document: SnapshotDocument, broker: str, namespace: str, limit: int) -> BundleList:
    """Return the bundles with the highest throughput, at most `limit`, that are on the broker and in the namespace; ""
    means any broker, or any namespace.
    """
    found = [
        BundleFigures(
            bundle=name,
            broker=owner,
            msg_rate=None if stats is None else stats.msg_rate_in + stats.msg_rate_out,
            msg_throughput=None if stats is None else stats.msg_throughput_in + stats.msg_throughput_out,
            topics=None if stats is None else stats.topics,
        )
        for owner, name, stats in owned_bundles(document)
        if broker in ("", owner) and namespace in ("", name.rpartition("/")[0])
    ]
    found.sort(key=lambda row: (-(row.msg_throughput or 0.0), -(row.msg_rate or 0.0), row.bundle))
    return BundleList(count=len(found), bundles=found[:limit])
