"""Finds the topics of a cluster that only Java brokers can serve, with the reasons that a Python broker gives.

A Python broker finds out only when it opens such a topic, and then refuses to serve it. Tools find all such topics
without opening one.
"""

from collections.abc import AsyncIterator

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.errors import NoSuchEntryError, NoSuchLedgerError
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import ledger_errors
from pulsar_barycenter.ledger.errors import ForeignTopicError
from pulsar_barycenter.ledger.inspection import listed_topics
from pulsar_barycenter.ledger.pulsar_records.topic_check import TopicCheck
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName


async def foreign_topics(
    store: MetadataStore, client: LedgerClient, clock: Clock
) -> AsyncIterator[tuple[TopicName, str]]:
    """Yield each topic that Python brokers refuse to serve, with the reason as text, ordered by topic name. Call this
    only if the records of the cluster's topics have Pulsar's form. Changes nothing. `client` is a client of the
    bookies.

    Raises:
        LedgerError, MetadataError: a store did not answer, or a record cannot be decoded.
    """

    async def newest(ledger: int) -> bytes | None:
        # A Java broker may write this ledger now, so it is read without taking it over.
        with ledger_errors(ledger):
            try:
                return await client.newest_entry(ledger, password=(await client.metadata(ledger)).password)
            except (NoSuchLedgerError, NoSuchEntryError):
                return None

    check = TopicCheck(newest, clock)
    async for path, topic, _ in listed_topics(store):
        try:
            await check.run(store, path)
        except ForeignTopicError as error:
            yield topic, str(error)
