"""The guarantees of every ledger storage (tests/contract/test_ledger_storage.py), on bookies of Apache BookKeeper."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from contract.test_ledger_storage import *  # noqa: F403 (the tests)
from contract.test_ledger_storage import Place, described
from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.metadata.open import open_store
from support.maven import PeerUnavailableError
from support.real_bookies import RealBookies, real_bookies

pytestmark = [pytest.mark.peer, pytest.mark.full_form]

TESTS = count(1)


@pytest.fixture(scope="module")
def bookies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBookies]:
    try:
        with real_bookies(tmp_path_factory.mktemp("bookies"), 3) as cluster:
            yield cluster
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))


class OwnNumbers(BookKeeperStorage):
    """Gives each test ids of its own: bookies remember the entries and fences of deleted ledgers for days."""

    first = 0

    async def create(self, ledger_id, *, epoch, on_durable):  # type: ignore[no-untyped-def]
        return await super().create(self.first + ledger_id, epoch=epoch, on_durable=on_durable)

    async def fence(self, ledger_id, *, epoch):  # type: ignore[no-untyped-def]
        return await super().fence(self.first + ledger_id, epoch=epoch)

    async def open(self, ledger_id, *, entry_count, **options):  # type: ignore[no-untyped-def]
        return await super().open(self.first + ledger_id, entry_count=entry_count, **options)

    async def delete(self, ledger_id: int) -> None:
        await super().delete(self.first + ledger_id)


@pytest.fixture
async def place(bookies: RealBookies) -> AsyncIterator[Place]:
    stores = [await open_store(bookies.url) for _ in range(2)]
    shape = LedgerShape(3, 3, 2, password=b"secret")
    first = next(TESTS) * 1000
    storages = []
    for store in stores:
        storage = OwnNumbers(await connect(store), shape, described, Caches.of())
        storage.first = first
        storages.append(storage)
    yield Place(storages[0], storages[1], has_columns=False, spares_own_epoch=False)
    for storage in storages:
        await storage.close()
    for store in stores:
        await store.close()
