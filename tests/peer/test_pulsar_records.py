"""The records of topics: Pulsar's own classes write what the tests have, and read what Barycenter writes."""

import os
import subprocess
from pathlib import Path

import pytest

from pulsar_barycenter.config.pulsar_version import VERSIONS
from pulsar_barycenter.ledger.managed.records import CursorRecord, LedgerRecord, ManagedLedgerRecord
from pulsar_barycenter.ledger.pulsar_records.cursors_mapping import NO_LEDGER, info_of_cursor, position_of_cursor
from pulsar_barycenter.ledger.pulsar_records.ledgers_mapping import info_of_ledgers
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    CompressionType,
    ManagedCursorInfo,
    ManagedLedgerInfo,
)
from pulsar_barycenter.ledger.pulsar_records.record_codec import (
    StoredCursor,
    StoredLedgers,
    write_position,
    write_record,
)
from support.bookkeeper_bytes import parsed
from support.maven import PeerUnavailableError, java_of
from support.pulsar_peer import resolve_class_path, resolve_class_path_5, silent
from support.pulsar_record_bytes import java_records

SOURCE = Path(__file__).parents[1] / "support" / "java" / "PulsarRecordBytes.java"
LEDGERS = ManagedLedgerRecord(
    ledgers=(LedgerRecord(7, 5, 50, 9, 8, closed=True), LedgerRecord(9, created_at=77)),
    deleting=(3,),
    terminated=(7, 4),
    properties={"owner": "team"},
)
CURSOR = CursorRecord(
    mark_delete=(-1, -1),
    ranges=((7, 0, 3), (9, 1, 1)),
    properties={"who": "me"},
    partial=((7, 4, (1 << 63, 1)),),
)


class Java:
    """The program of one line of Pulsar."""

    def __init__(self, line: str, folder: Path) -> None:
        self._java, javac = java_of(17 if line == "4.x" else 21)
        _, jars = resolve_class_path() if line == "4.x" else resolve_class_path_5(complete=True)
        joined = os.pathsep.join(silent(jars))
        command = [javac, "-nowarn", "-proc:none", "-d", str(folder), "-cp", joined, str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True)
        self._class_path = f"{folder}{os.pathsep}{joined}"

    def run(self, *words: str) -> dict[str, bytes]:
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", self._class_path]
        command = [self._java, *options, "org.apache.bookkeeper.mledger.impl.PulsarRecordBytes", *words]
        return parsed(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module", params=VERSIONS)
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Java:
    try:
        return Java(request.param, tmp_path_factory.mktemp("classes"))
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))


def test_the_recorded_bytes_are_those_of_java(java: Java) -> None:
    assert java.run() == java_records()


@pytest.mark.full_form
def test_java_reads_what_we_write_in_every_compression(java: Java) -> None:
    ledgers = info_of_ledgers(ManagedLedgerInfo(), LEDGERS)
    cursor = info_of_cursor("sub", ManagedCursorInfo(), CURSOR, ledger_id=NO_LEDGER, now_ms=5)
    position = write_position(position_of_cursor(cursor, CURSOR))
    expected = {"position": position}
    words = ["position", position.hex()]
    for kind in CompressionType.values():
        name = CompressionType.Name(kind)
        for key, stored in (("ledgers", StoredLedgers(ledgers, kind)), ("cursor", StoredCursor(cursor, kind))):
            words += [f"{key}-{name}", write_record("/p", stored).hex()]
            expected[f"{key}-{name}"] = stored.info.SerializeToString()
    found = java.run(*words)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        if name.startswith("ledgers"):  # Java puts the present time where there is none
            read = ManagedLedgerInfo.FromString(value)
            read.ledgerInfo[1].ClearField("timestamp")
            assert read == ledgers
        else:
            assert value == expected[name], name
