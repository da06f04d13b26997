"""`barycenter ledger bookies`: its report, and the deletion of ledgers that no topic lists."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.folder_identity import check_one_bookie_cluster, check_one_folder
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordsInPulsarsForm
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.naming.topic import TopicName
from support.bookkeeper_server import BookieCluster
from support.cursor_ledgers import MemoryCursorLedgers

TOPIC = TopicName.parse("persistent://public/default/t")
FORMS: Mapping[str, RecordForm] = {
    "barycenter": RECORDS_WITH_EPOCHS,
    "pulsar": RecordsInPulsarsForm(MemoryCursorLedgers(), SystemClock()),
}


def run(code: int, url: str, *words: str) -> str:
    result = CliRunner().invoke(main, ["ledger", "bookies", "--metadata-store", url, *words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def in_cluster(
    url: str,
    *,
    delete_listed: bool = False,
    broker: str = "",
    odd_topic: str = "",
    words: tuple[str, ...] = (),
    records: str = "barycenter",
) -> Any:
    """Run the command while bookies run, after one topic got an entry and one ledger was left by a broker; return its
    exit code and output.
    """

    async def play() -> Any:
        async with BookieCluster(2, await open_store(url)) as cluster:
            client = await connect(cluster.store)
            user = await check_one_bookie_cluster(cluster.store, client.instance_id, records=records)
            shape = LedgerShape(2, 2, 2, password=b"secret")
            storage = BookKeeperStorage(client, shape, lambda _: (1, 0), Caches.of(), cluster=user)
            topic: ManagedLedger[int] = await ManagedLedger.open(
                cluster.store, storage, TOPIC, epoch=1, clock=SystemClock(), form=FORMS[records]
            )
            topic.append(b"entry", 1, 0, 0)
            await topic.close()
            left = await storage.new_id(cluster.store, lambda _: None)
            await storage.create(left, epoch=1, on_durable=lambda *_: None)
            if delete_listed:
                await client.delete(next(iter(topic.segments)).ledger_id)
            if odd_topic:
                await cluster.store.put(f"/managed-ledgers/public/default/persistent/{odd_topic}", b"{")
            if broker:
                await cluster.store.put(f"/loadbalance/brokers/{broker}", b"")
            await storage.close()
            command = ["ledger", "bookies", "--metadata-store", url, *words]
            result = await asyncio.to_thread(CliRunner().invoke, main, command)
            return result.exit_code, result.output, left

    return asyncio.run(asyncio.wait_for(play(), 30))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'metadata.sqlite'}"


@pytest.mark.parametrize("records", FORMS)
def test_ledgers_that_no_topic_lists_are_named_and_deleted_when_asked(url: str, records: str) -> None:
    code, output, left = in_cluster(url, words=("--delete-unlisted",), records=records)
    assert code == 0
    assert f"ledger {left}  belonged to no topic; deleted" in output
    assert "1 ledger of 1 topic: 1 on bookies, 0 missing; 0 listed by no topic; 0 ledgers of other users" in output


def test_a_ledger_that_a_topic_needs_is_reported_and_nothing_else_is_changed(url: str) -> None:
    code, output, left = in_cluster(url, delete_listed=True, words=("--json",))
    assert code == 3
    report = json.loads(output)
    assert [lacking["topic"] for lacking in report["lacking"]] == [str(TOPIC)]
    assert (report["unlisted"], report["deleted"]) == ([left], [])


def test_a_list_that_cannot_be_read_is_told_and_then_nothing_is_deleted(url: str) -> None:
    code, output, _ = in_cluster(url, odd_topic="odd")
    assert code == 3
    assert "persistent://public/default/odd  its list of ledgers cannot be read" in output
    assert "1 ledger of 1 topic: 1 on bookies, 0 missing; which ledgers no topic lists is not known" in output


def test_nothing_is_deleted_while_a_list_cannot_be_read(url: str) -> None:
    code, output, _ = in_cluster(url, odd_topic="odd", words=("--delete-unlisted",))
    assert code == 1
    assert "nothing is deleted, because the list of persistent://public/default/odd cannot be read" in output


def test_nothing_is_deleted_while_a_broker_runs(url: str) -> None:
    code, output, _ = in_cluster(url, broker="127.0.0.1:8080", words=("--delete-unlisted",))
    assert code == 1
    assert "1 broker run on this metadata store (127.0.0.1:8080)" in output


def test_a_cluster_without_bookies_or_with_files_is_refused(url: str, tmp_path: Path) -> None:
    assert "no cluster of bookies was initialized" in run(1, url)

    async def with_files() -> None:
        store = await open_store(url)
        await store.put("/ledgers/INSTANCEID", b"uuid")
        (tmp_path / "ledgers").mkdir()
        await check_one_folder(store, str(tmp_path / "ledgers"))
        await store.close()

    asyncio.run(with_files())
    assert "the brokers of this metadata store keep messages in files" in run(1, url)
