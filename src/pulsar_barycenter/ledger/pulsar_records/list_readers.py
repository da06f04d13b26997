"""How tools read the lists of ledgers of a cluster, by the form that the cluster has stored as its choice."""

from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.ledger.managed.records import ManagedLedgerRecord, ReadList, read_list_with_epoch
from pulsar_barycenter.ledger.pulsar_records.errors import PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.ledgers_mapping import listed_in
from pulsar_barycenter.ledger.pulsar_records.record_codec import read_ledgers
from pulsar_barycenter.metadata.errors import InvalidValueError

_JSON: Final = b"{"


def read_list_of_pulsar(path: str, value: bytes) -> ManagedLedgerRecord:
    """Decode `value`, a topic's list of ledgers that is stored at `path` in Pulsar's form. The result has the ledgers
    that may be on bookies.

    Raises:
        InvalidValueError: the value is not such a list.
    """
    try:
        return listed_in(read_ledgers(path, value).info)
    except PulsarRecordError as error:
        raise InvalidValueError(path, str(error).removeprefix(f"{path}: ")) from error


_READERS: Final[Mapping[str, ReadList]] = {"barycenter": read_list_with_epoch, "pulsar": read_list_of_pulsar}


def list_reader(records: str) -> ReadList:
    """Return the function that decodes lists of ledgers in the form `records`, a value of barycenterLedgerRecords."""
    return _READERS[records]


def form_of_list(value: bytes) -> str:
    """Return the form in which a topic's list of ledgers is stored, as a value of barycenterLedgerRecords. `value` is
    the stored list, and is not empty. Its first byte shows the form: only Barycenter's form is JSON.
    """
    return "barycenter" if value.startswith(_JSON) else "pulsar"
