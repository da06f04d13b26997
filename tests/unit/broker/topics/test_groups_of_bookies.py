"""A topic on bookies: its ledgers are on those of its namespace's groups, from its next load on."""

import msgspec

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.broker.namespaces.policies import BookieAffinityGroup
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from support.bookkeeper_server import BookieCluster
from support.one_broker import OneBroker
from support.wire_client import WireClient

TOPIC = "persistent://public/default/t"


async def test_new_ledgers_follow_the_groups_of_the_namespace() -> None:
    async with BookieCluster(3) as cluster:
        names = sorted(bookie.name for bookie in cluster.bookies)
        groups = {group: {name: {"rack": "/r"}} for group, name in zip(("a", "b", "c"), names, strict=True)}
        await cluster.store.put("/bookies", msgspec.json.encode(groups))
        ledgers = BookKeeperStorage(
            await connect(cluster.store), LedgerShape(1, 1, 1), lambda _: (1, 0), Caches.of(), has_own_store=True
        )
        broker = await OneBroker(ledgers=ledgers).start()
        assert ledgers.store_of_racks(broker.store) is cluster.store
        for group, name in zip(("b", "c"), names[1:], strict=True):
            broker.policies.of_bookies = BookieAffinityGroup(group)
            client = await WireClient.connect(broker.port)
            await client.produce(TOPIC)
            ((ledger, _),) = await client.send_all(1)
            assert (await ledgers.client.metadata(ledger)).segments[-1].members == (name,)
            client.close()
            await broker.unload()
        await broker.stop()
