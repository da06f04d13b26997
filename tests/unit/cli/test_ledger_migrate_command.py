"""`barycenter ledger migrate`: what it prints, its exit codes, and which configurations it takes."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.folder import ledger_path
from pulsar_barycenter.ledger.folder_identity import check_one_folder
from pulsar_barycenter.metadata.open import open_store
from support.bookkeeper_server import BookieCluster
from support.broker_data import KEPT, LEDGERS, METADATA

COUNTED = "6 ledgers of 3 topics (17 entries, "


class Folder:
    """A stopped data folder whose brokers have an identity, and the configuration of its cluster on bookies."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.conf = root / "bookies.conf"
        self.bookies = root / "bookies.sqlite"
        shutil.copytree(KEPT, self.data)
        self.write_conf()

    def write_conf(self, **keys: str) -> None:
        found = {
            "metadataStoreUrl": f"sqlite:{self.data / METADATA}",
            "barycenterDataDir": str(self.data),
            "barycenterLedgerStorage": "bookkeeper",
            "bookkeeperMetadataServiceUri": f"metadata-store:sqlite:{self.bookies}",
            **keys,
        }
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in found.items()))

    def run(self, *words: str) -> Result:
        command = ["ledger", "migrate", "--data", str(self.data), "--config", str(self.conf), *words]
        return CliRunner().invoke(main, command)

    def beside_bookies(self, play: Callable[[Callable[..., Awaitable[Result]]], Awaitable[None]]) -> None:
        """Run `play` while bookies run; it gets a function that runs the command."""

        async def run(*words: str) -> Result:
            result = await asyncio.to_thread(self.run, *words)
            assert "Traceback" not in result.output
            return result

        async def play_all() -> None:
            store = await open_store(f"sqlite:{self.data / METADATA}")
            for broker in await store.children("/loadbalance/brokers"):
                await store.delete(f"/loadbalance/brokers/{broker}")
            await check_one_folder(store, str(self.data / LEDGERS))
            await store.close()
            async with BookieCluster(3, await open_store(f"sqlite:{self.bookies}")):
                await play(run)

        asyncio.run(asyncio.wait_for(play_all(), 60))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_dry_run_changes_nothing_and_a_run_moves_all(folder: Folder) -> None:
    async def play(run: Callable[..., Awaitable[Result]]) -> None:
        dry = await run("--dry-run")
        assert (dry.exit_code, dry.output.startswith(COUNTED)) == (0, True), dry.output
        assert "nothing prevents the migration; nothing was changed" in dry.output
        report: dict[str, Any] = json.loads((await run("--dry-run", "--json")).output)
        assert (report["state"], report["ledgers"], report["written"]) == ("possible", 6, 0)
        done = await run()
        assert (done.exit_code, done.output.startswith(COUNTED)) == (0, True), done.output
        assert "every entry compared; 6 written by this run" in done.output
        assert f"start its brokers with {folder.conf}" in done.output
        again = await run("--json")
        assert (again.exit_code, json.loads(again.output)["state"]) == (0, "migrated")
        for words in ("check", "repair"):
            refused = await asyncio.to_thread(CliRunner().invoke, main, ["ledger", words, "--data", str(folder.data)])
            assert "the brokers of this metadata store keep messages on bookies" in refused.output
        words = [
            "--metadata-store",
            f"sqlite:{folder.data / METADATA}",
            "--bookies",
            f"metadata-store:sqlite:{folder.bookies}",
        ]
        compared = await asyncio.to_thread(CliRunner().invoke, main, ["ledger", "bookies", *words])
        assert "6 ledgers of 3 topics: 6 on bookies, 0 missing; 0 listed by no topic" in compared.output

    folder.beside_bookies(play)


def test_metadata_moves_to_the_store_of_the_configuration(folder: Folder, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'next.sqlite'}"
    folder.write_conf(metadataStoreUrl=url)

    async def play(run: Callable[..., Awaitable[Result]]) -> None:
        done = await run()
        assert (done.exit_code, done.output.startswith(COUNTED)) == (0, True), done.output
        words = ["--metadata-store", url, "--bookies", f"metadata-store:sqlite:{folder.bookies}"]
        compared = await asyncio.to_thread(CliRunner().invoke, main, ["ledger", "bookies", *words])
        assert "6 ledgers of 3 topics: 6 on bookies, 0 missing; 0 listed by no topic" in compared.output
        store = await open_store(url)
        policies = await store.get("/admin/policies/public/default")
        await store.close()
        assert policies is not None
        assert policies.value == b'{"bundles":8}'
        refused = await asyncio.to_thread(CliRunner().invoke, main, ["ledger", "check", "--data", str(folder.data)])
        assert "the cluster was migrated to bookies, and its metadata to another metadata store" in refused.output

    folder.beside_bookies(play)


def test_a_damaged_ledger_is_named_and_nothing_is_moved(folder: Folder) -> None:
    file = Path(ledger_path(str(folder.data / LEDGERS), 1))
    content = bytearray(file.read_bytes())
    content[fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE] ^= 1
    file.write_bytes(content)

    async def play(run: Callable[..., Awaitable[Result]]) -> None:
        refused = await run()
        assert refused.exit_code == 3
        assert "persistent://public/default/orders  ledger 1  " in refused.output
        assert "1 reason against the migration; nothing was changed" in refused.output
        report = json.loads((await run("--json")).output)
        assert (report["state"], report["refusals"][0]["ledger"]) == ("refused", 1)

    folder.beside_bookies(play)


def test_a_folder_in_use_and_a_registered_broker_are_refused(folder: Folder) -> None:
    async def play(run: Callable[..., Awaitable[Result]]) -> None:
        storage = FileLedgerStorage(folder.data / LEDGERS)
        assert "a broker uses these ledgers; stop the broker first" in (await run()).output
        await storage.close()
        store = await open_store(f"sqlite:{folder.data / METADATA}")
        await store.put("/loadbalance/brokers/b:8080", b"", ephemeral=True)
        refused = await run()
        await store.close()
        assert refused.exit_code == 1
        assert "1 broker still registered in the metadata store (b:8080): stop these brokers first" in refused.output

    folder.beside_bookies(play)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"barycenterLedgerStorage": "files"}, "has barycenterLedgerStorage=files: give the configuration"),
        ({"barycenterLedgerRecords": "pulsar"}, "so set barycenterLedgerRecords=barycenter"),
        ({"bookkeeperMetadataServiceUri": "metadata-store:sqlite:/nowhere/x"}, "x"),
    ],
)
def test_a_configuration_of_another_cluster_is_refused(folder: Folder, keys: dict[str, str], said: str) -> None:
    folder.write_conf(**keys)
    result = folder.run()
    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output
