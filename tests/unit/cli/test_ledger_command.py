"""`barycenter ledger`: its report on a stopped data folder, and its repairs."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pulsar_barycenter.broker.compaction.compactor import Compactor
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.folder import ledger_path
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName
from support.broker_data import CLOSED, KEPT, LEDGERS, METADATA, OPEN
from support.compaction_cases import Message, compacted_places, single


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The kept folder: a closed topic of 9 entries in the ledgers 1 to 3, one that is open in 7, one in 5 and 6."""
    shutil.copytree(KEPT, tmp_path / "data")
    return tmp_path / "data"


def run(code: int, *words: str | Path) -> str:
    result = CliRunner().invoke(main, ["ledger", *map(str, words)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def told(code: int, *words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(code, *words, "--json"))
    return found


def flip(file: Path, offset: int) -> None:
    content = bytearray(file.read_bytes())
    content[offset] ^= 0x10
    file.write_bytes(content)


def file_of(data: Path, ledger_id: int) -> Path:
    return Path(ledger_path(str(data / LEDGERS), ledger_id))


def test_a_whole_folder_is_said_to_be_whole(data: Path) -> None:
    assert run(0, "check", "--data", data) == "6 ledgers of 3 topics: 6 intact, 0 damaged\n"
    assert run(0, "repair", "--data", data) == "6 ledgers of 3 topics: 6 intact, 0 damaged\n"
    assert run(0, "check", "--data", data, "--topic", str(OPEN)) == "1 ledger of 1 topic: 1 intact, 0 damaged\n"


def test_damage_is_told_by_file_topic_and_positions_and_mended(data: Path) -> None:
    """Before and behind the damage the entries are kept; the second repair finds nothing to do."""
    flip(file_of(data, 1), fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)  # the head of entry 1
    file_of(data, 5).unlink()
    flip(file_of(data, 7), fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)  # the data of entry 0
    text = run(3, "check", "--data", data)
    assert f"{CLOSED}  ledger 1  damaged" in text
    for row in (f"file         {file_of(data, 1)}", "readable     1:0, 1:2-1:3", "lost         1:1\n"):
        assert row in text
    assert f"barycenter ledger repair --data {data}" in text
    before = told(3, "check", "--data", data)
    by_ledger = {each["ledger"]: each for each in before["damaged"]}
    assert [(n, each["state"], each.get("readable", []), each["lost"]) for n, each in by_ledger.items()] == [
        (7, "damaged", ["7:1-7:2"], ["7:0"]),
        (1, "damaged", ["1:0", "1:2-1:3"], ["1:1"]),
        (5, "missing", [], ["5:0-5:3"]),
    ]
    assert by_ledger[7]["topic"] == str(OPEN)
    after = told(0, "repair", "--data", data)
    assert {each["ledger"]: each.get("kept") for each in after["damaged"]} == {
        1: f"{file_of(data, 1)}.damaged", 5: None, 7: f"{file_of(data, 7)}.damaged"
    }  # fmt: skip
    assert run(0, "check", "--data", data) == "6 ledgers of 3 topics: 6 intact, 0 damaged\n"
    assert told(0, "repair", "--data", data)["damaged"] == []


def test_a_folder_whose_ledgers_are_all_gone_is_mended_too(data: Path) -> None:
    """Topics and subscriptions are known, and go on without the messages."""
    shutil.rmtree(data / LEDGERS)
    found = told(3, "check", "--data", data)["damaged"]
    assert [each["state"] for each in found] == ["missing"] * 6
    run(0, "repair", "--data", data)
    assert run(0, "check", "--data", data) == "6 ledgers of 3 topics: 6 intact, 0 damaged\n"


def test_ledgers_of_no_topic_are_named_and_left_alone(data: Path) -> None:
    stranger = file_of(data, 99)
    shutil.copy(file_of(data, 1), stranger)
    assert f"{stranger}  belongs to no topic" in run(0, "check", "--data", data)
    assert told(0, "repair", "--data", data)["unlisted"] == [str(stranger)]
    assert stranger.exists()


def test_what_cannot_be_repaired_is_said(data: Path) -> None:
    """A folder in a ledger's place is not replaced; the others are mended all the same."""
    flip(file_of(data, 1), fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)
    file_of(data, 5).unlink()
    file_of(data, 5).mkdir()
    assert "failed       Is a directory" in run(1, "repair", "--data", data)
    (left,) = told(3, "check", "--data", data)["damaged"]
    assert left["ledger"] == 5


def test_a_list_that_cannot_be_read_is_told_and_the_other_topics_are_checked_and_mended(data: Path) -> None:
    """Files that it may name do not count as files of no topic."""

    async def damage() -> None:
        store = await open_store(f"sqlite:{data / METADATA}")
        await store.put("/managed-ledgers/public/default/persistent/odd", b"{")
        await store.close()

    asyncio.run(damage())
    flip(file_of(data, 1), fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)
    shutil.copy(file_of(data, 2), file_of(data, 99))
    odd = "persistent://public/default/odd"
    text = run(3, "check", "--data", data)
    assert f"{odd}  its list of ledgers cannot be read" in text
    assert f"{CLOSED}  ledger 1  damaged" in text
    found = told(1, "repair", "--data", data)
    assert ([one["topic"] for one in found["unreadable"]], found["unlisted"]) == ([odd], [])
    found = told(3, "check", "--data", data)
    assert (found["damaged"], len(found["unreadable"])) == ([], 1)
    assert told(0, "check", "--data", data, "--topic", str(CLOSED))["unreadable"] == []
    assert told(3, "check", "--data", data, "--topic", odd)["ledgers"] == 0


async def test_a_folder_that_a_broker_runs_on_is_refused(data: Path) -> None:
    storage = FileLedgerStorage(data / LEDGERS)
    for word in ("check", "repair"):
        assert "a broker uses these ledgers; stop the broker first" in run(1, word, "--data", data)
    await storage.close()


def test_a_wrong_folder_is_told_in_a_sentence(tmp_path: Path, data: Path) -> None:
    assert "is not a data folder of brokers" in run(1, "check", "--data", tmp_path)
    assert "no ledgers of a topic persistent://a/b/c" in run(
        1, "check", "--data", data, "--topic", "persistent://a/b/c"
    )
    (data / METADATA).unlink()
    assert "metadata.sqlite is missing" in run(1, "check", "--data", data)
    assert not (data / METADATA).exists()
    run(2, "check", "--data", tmp_path / "none")


def test_the_metadata_may_be_in_another_store_and_has_to_be_of_this_folder(data: Path, tmp_path: Path) -> None:
    """A folder that is not the cluster's would be filled with ledgers of which all is gone."""
    store = tmp_path / "elsewhere"
    (data / METADATA).rename(store)
    words = ("--data", data, "--metadata-store", f"sqlite:{store}")
    assert told(0, "check", *words) == told(0, "check", "--data", data, "--metadata", store)
    flip(file_of(data, 1), fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)
    (report,) = told(0, "repair", *words)["damaged"]
    assert report["isRepaired"]

    asyncio.run(put(f"sqlite:{store}", FOLDER_KEY, b"0" * 32))
    assert "brokers of this metadata store use another folder" in run(1, "repair", *words)
    assert "expected sqlite:PATH" in run(1, "check", "--data", data, "--metadata-store", "nowhere")
    assert "it has no ledgers/" in run(1, "check", "--data", tmp_path, "--metadata-store", f"sqlite:{store}")
    run(2, "check", *words, "--metadata", store)


async def put(url: str, path: str, value: bytes) -> None:
    store = await open_store(url)
    await store.put(path, value)
    await store.close()


def test_compacted_ledgers_are_known_and_looked_through(tmp_path: Path) -> None:
    """One in force is checked and mended like any other; what a compaction that was cut short has left is no stray."""
    data = asyncio.run(compacted_folder(tmp_path / "data"))
    found = told(0, "check", "--data", tmp_path / "data")
    assert (found["topics"], found["ledgers"], found["damaged"], found["unlisted"]) == (1, 2, [], [])
    flip(file_of(tmp_path / "data", data), fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)
    found = told(3, "check", "--data", tmp_path / "data")
    assert [report["ledger"] for report in found["damaged"]] == [data]
    told(0, "repair", "--data", tmp_path / "data")
    assert asyncio.run(compacted_keys(tmp_path / "data")) == ["b"]


async def compacted_folder(data: Path) -> int:
    """Make a data folder of one topic that was compacted, while another compaction was under way when the broker
    died; return the compacted ledger's id."""
    (data / LEDGERS).mkdir(parents=True)
    storage, store, ledger = await open_ledger(data, epoch=1)
    for key in ("a", "a", "b"):
        ledger.append(single(Message(key, b"1")), 1, 0, None)
    while ledger.last_position.entry_id < 2:
        await asyncio.sleep(0)
    await Compactor(ledger).run()
    current = ledger.compacted.current
    assert current is not None
    begun = await ledger.compacted.begin()
    await begun.writer.close()
    await store.close()
    await storage.close()
    return current.segment.ledger_id


async def compacted_keys(data: Path) -> list[str | None]:
    storage, store, ledger = await open_ledger(data, epoch=2)
    keys = [place.key for place in await compacted_places(ledger)]
    await ledger.close()
    await store.close()
    await storage.close()
    return keys


async def open_ledger(data: Path, epoch: int) -> tuple[FileLedgerStorage, MetadataStore, ManagedLedger]:
    storage = FileLedgerStorage(data / LEDGERS)
    store = await open_store(f"sqlite:{data / METADATA}")
    topic = TopicName.parse("persistent://public/default/table")
    return storage, store, await ManagedLedger.open(store, storage, topic, epoch=epoch, clock=SystemClock())
