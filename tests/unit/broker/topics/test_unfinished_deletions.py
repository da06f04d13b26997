"""A deletion of a subscription that the store did not answer is completed: it is deleted again, or created again."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_barycenter.broker.errors import SubscriptionNotFoundError
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.ledger.errors import LedgerUnavailableError
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import RestCluster, rest_cluster

TOPIC = TopicName.parse("persistent://public/ns/t")
PATH = "/admin/v2/persistent/public/ns/t"


@pytest.fixture
async def cluster() -> AsyncIterator[RestCluster]:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", PATH)
        await cluster.expect(204, "PUT", f"{PATH}/subscription/s", "earliest")
        yield cluster


async def topic_that_failed_to_delete(cluster: RestCluster, monkeypatch: pytest.MonkeyPatch) -> PersistentTopic:
    broker = await cluster.owner("persistent/public/ns/t")
    topic = await broker.registry.get_or_create(TOPIC)
    assert isinstance(topic, PersistentTopic)

    async def no_answer(path: str, **_: Any) -> None:
        raise StoreUnavailableError(path, "no answer to delete")

    with monkeypatch.context() as patched:
        patched.setattr(broker.env.store, "delete", no_answer)
        with pytest.raises(LedgerUnavailableError):
            await topic.delete_subscription("s", force=True)
    assert await stored(cluster) == ["s"]
    return topic


async def stored(cluster: RestCluster) -> list[str]:
    return await cluster.brokers[0].env.store.children(managed_ledger_path(TOPIC))


async def test_it_is_deleted_again(cluster: RestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await topic_that_failed_to_delete(cluster, monkeypatch)
    await topic.delete_subscription("s", force=False)
    assert await stored(cluster) == []
    with pytest.raises(SubscriptionNotFoundError):
        await topic.delete_subscription("s", force=False)


async def test_it_is_made_anew(cluster: RestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await topic_that_failed_to_delete(cluster, monkeypatch)
    await cluster.expect(204, "PUT", f"{PATH}/subscription/s", "latest")
    assert [*topic.subscriptions] == await stored(cluster) == ["s"]


async def test_it_goes_with_its_topic(cluster: RestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    await topic_that_failed_to_delete(cluster, monkeypatch)
    await cluster.expect(204, "DELETE", PATH, force="true")
    assert await stored(cluster) == []
