"""The check of the ledger folder: whether ledgers are safe there, and whether it is the cluster's folder."""

from collections.abc import Iterator

from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import Picture


def ledgers_folder(picture: Picture) -> Iterator[ClusterFinding]:
    """The ledger folder is not safe for ledgers, or the brokers use another folder."""
    seen = picture.ledgers
    if seen is None:
        return
    for why, mend in seen.problems:
        yield found(Severity.ERROR, seen.folder, why, mend)
    expected = picture.store.ledgers_folder if picture.store is not None else ""
    if expected.startswith("bookkeeper:"):
        yield found(
            Severity.CRITICAL,
            seen.folder,
            "the brokers of this metadata store keep messages on bookies: a broker that is started with this folder "
            "refuses to serve",
            "leave out --ledgers, and set barycenterLedgerStorage=bookkeeper",
        )
    elif expected and not seen.problems and seen.identity != expected:
        yield found(
            Severity.CRITICAL,
            seen.folder,
            "the brokers of this metadata store use another folder: a broker that is started with this one refuses to "
            "serve",
            "mount the brokers' folder on this machine, and set barycenterDataDir",
        )
