"""The records of a topic over REST, with the times at which they and the ledgers were made."""

import time
from datetime import UTC, datetime
from typing import Any

from pulsar_barycenter.protocol import client_commands, commands
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

TOPIC = "persistent://public/ns/t"
PATH = "/admin/v2/persistent/public/ns/t"
EARLIEST = {"ledgerId": -1, "entryId": -1}
UNKNOWN = "1970-01-01T00:00:00.000Z"
"""What Pulsar shows where a ledger was not created yet."""


async def shown(cluster: RestCluster, what: str) -> Any:
    return (await cluster.expect(200, "GET", f"{PATH}/{what}")).json


def is_since(began_s: float, text: str) -> bool:
    """Tell whether a time that was shown, to the millisecond, is between `began_s` and now."""
    return int(began_s * 1000) <= round(datetime.fromisoformat(text).timestamp() * 1000) <= time.time() * 1000


async def test_ledgers_and_cursors_are_shown_with_their_times() -> None:
    began_s = time.time()
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{PATH}/subscription/s", EARLIEST)
        internal = await shown(cluster, "internalStats")
        assert internal["lastLedgerCreatedTimestamp"] == UNKNOWN, "a topic without messages has no ledger"
        assert is_since(began_s, internal["cursors"]["s"]["lastLedgerSwitchTimestamp"])
        assert (await shown(cluster, "internal-info"))["ledgers"] == []
        client = await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))
        await client.produce(TOPIC)
        (first, *_, last) = await client.send_all(5)
        await client.subscribe(TOPIC, "s", permits=10)
        for place in (first, last):
            client.write(client_commands.ack(1, [commands.message_id(*place)]))
        await client.settled()
        ledger_id = first[0]
        assert is_since(began_s, (await shown(cluster, "internalStats"))["lastLedgerCreatedTimestamp"])
        info = await shown(cluster, "internal-info")
        (ledger,) = info["ledgers"]
        assert (ledger["ledgerId"], ledger["isOffloaded"]) == (ledger_id, False)
        assert is_since(began_s, datetime.fromtimestamp(ledger["timestamp"] / 1000, UTC).isoformat())
        cursor = info["cursors"]["s"]
        for record in (info, cursor):
            assert is_since(began_s, record["creationDate"])
            assert is_since(began_s, record["modificationDate"])
            assert record["version"] >= 0
        assert cursor["cursorsLedgerId"] == -1
        assert cursor["markDelete"] == {"ledgerId": ledger_id, "entryId": 0}
        assert cursor["individualDeletedMessages"] == [
            {"from": {"ledgerId": ledger_id, "entryId": 3}, "to": {"ledgerId": ledger_id, "entryId": 4}}
        ]
        client.close()
        await cluster.expect(200, "POST", f"{PATH}/terminate")
        assert (await shown(cluster, "internal-info"))["terminatedPosition"] == {"ledgerId": ledger_id, "entryId": 4}
