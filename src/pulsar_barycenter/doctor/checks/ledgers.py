"""The folder of the ledgers: whether it can hold them, and whether it is that of the cluster."""

from collections.abc import Iterator

from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import Picture


def ledgers_folder(picture: Picture) -> Iterator[ClusterFinding]:
    """The folder of the ledgers cannot hold them safely, or is another than the brokers'."""
    seen = picture.ledgers
    if seen is None:
        return
    for why, mend in seen.problems:
        yield found(Severity.ERROR, seen.folder, why, mend)
    expected = picture.store.ledgers_folder if picture.store is not None else ""
    if expected and not seen.problems and seen.identity != expected:
        yield found(
            Severity.CRITICAL,
            seen.folder,
            "it is another folder than the one that the brokers of this metadata store use: a broker that is started"
            " here refuses to serve",
            "mount that one on this machine, and set barycenterDataDir",
        )
