"""Opens the brokers' metadata store and a client of their bookies, for tools."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import DEFAULT_ROOT
from pulsar_barycenter.bookkeeper.metadata.ledger_store import draw_of
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import connect
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.metadata.open import UnknownStoreError, check_url, open_store
from pulsar_barycenter.metadata.store import MetadataStore


@asynccontextmanager
async def opened_bookies(
    uri: str, brokers_url: str, config_path: str = ""
) -> AsyncIterator[tuple[MetadataStore, LedgerClient]]:
    """Context manager for command-line tools: open the brokers' metadata store, at `brokers_url`, and a client of their
    bookies. Both are closed at the end of the `with` statement.

    `uri` is the value of bookkeeperMetadataServiceUri. `config_path`, if not blank, is the file with further settings
    of the metadata stores.

    Raises:
        LedgerError: `uri` names no metadata store, or there is no cluster of bookies.
        MetadataError, UnknownStoreError: a store cannot be opened.
    """
    url, root = bookie_metadata(uri, brokers_url)
    async with AsyncExitStack() as opened:
        store = await open_store(brokers_url, config_path=config_path)
        opened.push_async_callback(store.close)
        other = store
        if url != brokers_url:
            other = await open_store(url, config_path=config_path)
            opened.push_async_callback(other.close)
        client = await connect(other, root=root, draw=draw_of(url))
        opened.push_async_callback(client.close)
        yield store, client


def bookie_metadata(uri: str, brokers_url: str) -> tuple[str, str]:
    """Return where the metadata of the bookies is: the URL of the metadata store, and the path of the key below which
    the metadata is. `uri` is the value of bookkeeperMetadataServiceUri. If it is blank, the bookies use the brokers'
    store, `brokers_url`.

    Raises:
        LedgerError: `uri` names no metadata store.
    """
    if not uri:
        return brokers_url, DEFAULT_ROOT
    if uri.startswith("metadata-store:"):
        url, root = uri.removeprefix("metadata-store:").rstrip("/").removesuffix(DEFAULT_ROOT), DEFAULT_ROOT
    else:
        servers, _, path = uri.partition("://")[2].replace(";", ",").partition("/")
        chroot, _, name = path.rstrip("/").rpartition("/")
        url, root = f"zk:{servers}{f'/{chroot}' if chroot else ''}", f"/{name}" if name else DEFAULT_ROOT
    try:
        check_url(url)
    except UnknownStoreError as error:
        raise LedgerError(
            f"bookkeeperMetadataServiceUri: {error}. Set it to zk+hierarchical://HOST:PORT;HOST:PORT/ledgers or"
            " metadata-store:URL, or leave it blank"
        ) from error
    return url, root
