"""Dynamic settings: changed only from the expected value, and recorded with principal, time and reason."""

import asyncio

import msgspec

from pulsar_barycenter.broker.cluster.dynamic_configuration import CONFIGURATION_PATH
from pulsar_barycenter.broker.rest.audit import WHY
from pulsar_barycenter.cli.asking.client import asking_client
from pulsar_barycenter.cluster_logs.request_ids import HEADER
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.operations.drained import set_drained
from support.rest_cluster import RestCluster, rest_cluster

CONFIGURATION = "/admin/v2/brokers/configuration"
EXCLUDED = "loadBalancerSheddingExcludedNamespaces"
CHANGES = "/barycenter/v1/setting-changes"


async def stored(cluster: RestCluster) -> dict[str, str]:
    record = await cluster.store.get(CONFIGURATION_PATH)
    assert record is not None
    return msgspec.json.decode(record.value, type=dict[str, str])


async def test_a_setting_is_changed_only_while_it_is_what_was_expected() -> None:
    async with rest_cluster() as cluster:
        path = f"{CONFIGURATION}/{EXCLUDED}"
        await cluster.expect(409, "POST", f"{path}/a%2Fb", expected="c/d")
        await cluster.expect(200, "POST", f"{path}/a%2Fb", expected="")
        refused = await cluster.expect(409, "POST", f"{path}/c%2Fd", expected="")
        assert EXCLUDED in refused.reason
        assert "a/b" not in refused.reason
        assert (await stored(cluster))[EXCLUDED] == "a/b"
        await cluster.expect(409, "DELETE", path, expected="c/d")
        await cluster.expect(200, "POST", f"{path}/c%2Fd", expected="a/b")
        await cluster.expect(200, "POST", f"{path}/e%2Ff")
        await cluster.expect(200, "DELETE", path, expected="e/f")
        assert await stored(cluster) == {}


async def test_what_was_stored_in_other_words_is_expected_as_brokers_tell_it() -> None:
    async with rest_cluster() as cluster:
        path = f"{CONFIGURATION}/{DRAINED_KEY}"
        await cluster.expect(200, "POST", f"{path}/,")
        await cluster.expect(200, "POST", f"{path}/a:1,%20b:1", expected="")
        await cluster.expect(200, "POST", f"{path}/,", expected="a:1,b:1")


async def test_drains_of_two_at_once_both_count() -> None:
    async with rest_cluster(4) as cluster:
        first, second, third, fourth = (broker.broker_id for broker in cluster.brokers)
        urls = [str(broker.urls.web_url) for broker in cluster.brokers]
        await asyncio.gather(
            set_drained(asking_client, urls[0], first, is_drained=True),
            set_drained(asking_client, urls[1], second, is_drained=True, why="disk"),
            set_drained(asking_client, urls[2], third, is_drained=True),
        )
        assert set((await stored(cluster))[DRAINED_KEY].split(",")) == {first, second, third}
        await asyncio.gather(
            set_drained(asking_client, urls[3], first, is_drained=False),
            set_drained(asking_client, urls[0], second, is_drained=False),
        )
        assert (await stored(cluster))[DRAINED_KEY] == third
        assert all(broker.config.current.barycenter_drained_brokers == (third,) for broker in cluster.brokers)
        assert fourth not in (await stored(cluster))[DRAINED_KEY]


async def test_who_changed_a_setting_is_kept_beside_pulsars_map() -> None:
    async with rest_cluster(2) as cluster:
        path = f"{CONFIGURATION}/{EXCLUDED}"
        headers = {WHY: "batch jobs", HEADER: "r-1"}
        await cluster.expect(200, "POST", f"{path}/a%2Fb", headers=headers)
        await cluster.expect(200, "POST", f"{path}/c%2Fd", headers=headers)
        assert await stored(cluster) == {EXCLUDED: "c/d"}, "Pulsar's tools read and write it"
        noted = (await cluster.expect(200, "GET", CHANGES, at=cluster.brokers[1])).json[EXCLUDED]
        assert noted.pop("at") > 0
        assert noted == {"by": "anonymous", "value": "c/d", "before": "a/b", "why": "batch jobs", "requestId": "r-1"}

        settings = {each["key"]: each for each in (await cluster.expect(200, "GET", "/barycenter/v1/settings")).json}
        assert settings[EXCLUDED]["changed"]["why"] == "batch jobs"
        assert settings["loadBalancerSheddingIntervalMinutes"]["changed"] is None

        # what changes the map without a word makes the note one of another value
        await cluster.store.put(CONFIGURATION_PATH, msgspec.json.encode({EXCLUDED: "e/f"}))
        async with asyncio.timeout(30):
            while dict(cluster.brokers[0].control.dynamic_configuration.overrides) != {EXCLUDED: "e/f"}:
                await asyncio.sleep(0.005)
        settings = {each["key"]: each for each in (await cluster.expect(200, "GET", "/barycenter/v1/settings")).json}
        assert settings[EXCLUDED]["changed"] is None

        await cluster.expect(200, "DELETE", path)
        noted = (await cluster.expect(200, "GET", CHANGES)).json[EXCLUDED]
        assert (noted["before"], "value" in noted) == ("e/f", False)


async def test_who_drained_each_broker_stays_known_while_others_are_drained_and_undrained() -> None:
    async with rest_cluster(3) as cluster:
        first, second, third = (broker.broker_id for broker in cluster.brokers)
        url = str(cluster.brokers[0].urls.web_url)
        await set_drained(asking_client, url, first, is_drained=True, why="new disk")
        await set_drained(asking_client, url, second, is_drained=True, why="new board")
        noted = (await cluster.expect(200, "GET", CHANGES)).json[DRAINED_KEY]
        assert (noted["why"], noted["earlier"][first]["why"]) == ("new board", "new disk")
        await set_drained(asking_client, url, second, is_drained=False)
        noted = (await cluster.expect(200, "GET", CHANGES)).json[DRAINED_KEY]
        kept = noted["earlier"].pop(first)
        assert kept.pop("at") > 0
        assert len(kept.pop("requestId")) == 16
        assert (kept, noted["earlier"]) == ({"by": "anonymous", "why": "new disk"}, {})
        assert third not in noted["value"]


async def test_a_note_that_cannot_be_read_hinders_nothing() -> None:
    async with rest_cluster() as cluster:
        await cluster.store.put("/barycenter/setting-changes", b"[1]")
        assert (await cluster.expect(200, "GET", CHANGES)).json == {}
        await cluster.expect(200, "POST", f"{CONFIGURATION}/{EXCLUDED}/a%2Fb")
        assert list((await cluster.expect(200, "GET", CHANGES)).json) == [EXCLUDED]
