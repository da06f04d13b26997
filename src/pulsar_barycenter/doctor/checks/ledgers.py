"""The checks of ledgers: whether they are safe in the folder, whether it is the cluster's folder, whether bookies have
what topics list, and which topics Python brokers refuse.
"""

from collections.abc import Iterator

from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import BrokerView, Picture
from pulsar_barycenter.ledger.folder_identity import is_on_bookies
from pulsar_barycenter.naming.counted import count_of


def ledgers_folder(picture: Picture) -> Iterator[ClusterFinding]:
    """The ledger folder is not safe for ledgers, or the brokers use another folder.

    Yields a finding for each problem of the folder, and one if the brokers use another folder, or bookies.
    """
    seen = picture.ledgers
    if seen is None:
        return
    for why, mend in seen.problems:
        yield found(Severity.ERROR, seen.folder, why, mend)
    expected = picture.store.ledgers_folder if picture.store is not None else ""
    if is_on_bookies(expected.encode()):
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


def ledgers_on_bookies(picture: Picture) -> Iterator[ClusterFinding]:
    """A topic lacks a ledger on bookies, its list cannot be read, a ledger belongs to no topic, or bookies are too few.

    Yields a finding for each missing ledger and each such list, one for all ledgers without a topic, and one if too few
    bookies accept writes. If the bookies cannot be read, this is the only finding.
    """
    seen = picture.bookies
    if seen is None:
        return
    if seen.failure:
        yield found(
            Severity.ERROR, "bookies", f"the bookies could not be read: {seen.failure}", "start them, and check again"
        )
        return
    wanted = max((_ensemble_size(broker) for broker in picture.answering), default=1)
    if seen.writable < wanted:
        yield found(
            Severity.CRITICAL,
            "bookies",
            f"{count_of(seen.writable, 'bookie')} accept writes, and a new ledger needs {wanted}: producers wait",
            "start more bookies, or lower managedLedgerDefaultEnsembleSize and the quorums",
        )
    for topic, ledger, reason in seen.lacking:
        yield found(
            Severity.CRITICAL,
            topic,
            f"ledger {ledger} is missing on bookies or too short: {reason}",
            "bring back the ledger's bookies or key, or skip the lost entries with autoSkipNonRecoverableData=true",
        )
    for topic, reason in seen.unreadable:
        yield found(
            Severity.CRITICAL,
            topic,
            f"its list of ledgers cannot be read, so no broker can serve it: {reason}",
            "write the value of this key back from a copy of the metadata store",
        )
    if seen.unlisted:
        yield found(
            Severity.INFO,
            "bookies",
            f"{count_of(len(seen.unlisted), 'ledger')} of the brokers belong to no topic; one may be not listed yet",
            "stop the brokers, then run barycenter ledger bookies --delete-unlisted",
        )


def foreign_topics(picture: Picture) -> Iterator[ClusterFinding]:
    """Only Java brokers can serve a topic; its clients get an error while a Python broker owns its bundle.

    Yields a finding for each such topic.
    """
    for topic, reason in picture.bookies.foreign if picture.bookies is not None else ():
        yield found(
            Severity.WARNING,
            topic,
            f"{reason}. While a Python broker owns its bundle, its clients get an error",
            "keep its namespace on Java brokers by a namespace isolation policy, or unload its bundle to one of them",
        )


def _ensemble_size(broker: BrokerView) -> int:
    text = (broker.settings or {}).get("managedLedgerDefaultEnsembleSize", "")
    return int(text) if text.isdecimal() else 1
