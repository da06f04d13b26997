"""Compares the ledgers that topics list with those on the bookies of a cluster, and finds the topics that only Java
brokers can serve.
"""

import asyncio
from typing import Final

from pulsar_barycenter.doctor.picture import BookiesView, StoreView
from pulsar_barycenter.ledger.bookie_inspection import compare
from pulsar_barycenter.ledger.bookkeeper_storage.opened_bookies import opened_bookies
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.folder_identity import bookie_user, is_on_bookies
from pulsar_barycenter.ledger.foreign_topics import foreign_topics
from pulsar_barycenter.ledger.pulsar_records.list_readers import list_reader
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError

MAX_SECONDS: Final = 120.0


def has_bookies(store: StoreView) -> bool:
    """Return whether the brokers of this store keep messages on bookies."""
    return is_on_bookies(store.ledgers_folder.encode())


async def read_bookies(url: str, config_path: str, uri: str) -> BookiesView:
    """Return what the bookies have. If this takes longer than MAX_SECONDS, or a store does not answer, nothing is
    raised: `failure` of the result says why. `url` is the brokers' metadata store with its `metadataStoreConfigPath`,
    `uri` their bookkeeperMetadataServiceUri.
    """
    try:
        async with asyncio.timeout(MAX_SECONDS), opened_bookies(uri, url, config_path) as (store, client):
            user = await bookie_user(store, client.instance_id)
            report = await compare(store, client, user.cluster, list_reader(user.records))
            foreign = []
            if user.records == "pulsar":
                foreign = [(str(topic), reason) async for topic, reason in foreign_topics(store, client, SystemClock())]
            return BookiesView(
                len(client.registry.writable),
                tuple((lacking.topic, lacking.ledger, lacking.detail) for lacking in report.lacking),
                tuple(report.unlisted),
                foreign=tuple(foreign),
                unreadable=tuple((one.topic, one.detail) for one in report.unreadable),
            )
    except (LedgerError, MetadataError, UnknownStoreError) as error:
        return BookiesView(failure=str(error))
    except TimeoutError:
        return BookiesView(failure=f"the ledgers could not be compared within {MAX_SECONDS:.0f} s")
