"""HTTP lookup with real brokers on loopback."""

import asyncio

from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import rest_cluster


async def test_every_broker_names_the_same_owner_with_every_field() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace(bundles=8)
        owners: dict[str, set[str]] = {}
        for index in range(20):
            name = f"persistent://public/ns/t{index}"
            range_text = (
                await cluster.expect(200, "GET", f"/lookup/v2/topic/persistent/public/ns/t{index}/bundle")
            ).body
            for broker in cluster.brokers:
                path = f"/lookup/v2/topic/persistent/public/ns/t{index}"
                answer = (await cluster.expect(200, "GET", path, at=broker)).json
                owner = next(found for found in cluster.brokers if found.urls.web_url == answer["httpUrl"])
                assert answer == {
                    "brokerUrl": owner.urls.broker_url,
                    "brokerUrlTls": None,
                    "httpUrl": owner.urls.web_url,
                    "httpUrlTls": None,
                    "nativeUrl": owner.urls.broker_url,
                    "brokerUrlSsl": "",
                }
                owners.setdefault(range_text.decode(), set()).add(owner.broker_id)
            lower, upper = (int(edge, 16) for edge in range_text.decode().split("_"))
            assert lower <= TopicName.parse(name).hash32 <= upper
        assert all(len(found) == 1 for found in owners.values())


async def test_a_follower_sends_the_first_lookup_to_the_leader_and_says_not_authoritative() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        follower = next(broker for broker in cluster.brokers if not broker.leadership.is_leader())
        leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
        path = "/lookup/v2/topic/persistent/public/ns/t"
        answer = await cluster.expect(307, "GET", path, at=follower, follow=False, listenerName="")
        assert answer.location == f"{leader.urls.web_url}{path}?authoritative=false"


async def test_many_first_lookups_of_one_bundle_name_one_owner() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace(bundles=1)
        paths = [f"/lookup/v2/topic/persistent/public/ns/t{index}" for index in range(64)]
        answers = await asyncio.gather(
            *(cluster.expect(200, "GET", path, at=cluster.brokers[n % 3]) for n, path in enumerate(paths))
        )
        assert len({answer.json["brokerUrl"] for answer in answers}) == 1


async def test_names_are_decoded_as_clients_encode_them() -> None:
    """`+` and `%20` are a space, `%2B` is a plus: all three lookups hash the canonical name."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace(bundles=1000)
        for encoded, local_name in (
            ("a+b", "a b"),
            ("a%20b", "a b"),
            ("a%2Bb", "a+b"),
            ("%C3%BC", "ü"),
            ("a%25b", "a%b"),
        ):
            answer = await cluster.expect(200, "GET", f"/lookup/v2/topic/persistent/public/ns/{encoded}/bundle")
            lower, upper = (int(edge, 16) for edge in answer.body.decode().split("_"))
            assert lower <= TopicName.parse(f"persistent://public/ns/{local_name}").hash32 < upper


async def test_what_cannot_be_looked_up_is_said_why() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for status, path in (
            (404, "persistent/public/missing/t"),
            (412, "persistant/public/ns/t"),
            (412, "persistent/pub lic/ns/t"),
            (412, "persistent/public/ns/a%2Fb"),
            (412, "persistent/public/ns/%FF"),
            (404, "persistent/public/ns/t-partition-1"),
            (404, "persistent/public/ns/t?listenerName=nobody"),
        ):
            answer = await cluster.expect(status, "GET", f"/lookup/v2/topic/{path.replace(' ', '%20')}")
            assert answer.reason


async def test_a_topic_that_may_not_be_created_is_found_once_it_exists() -> None:
    async with rest_cluster(allow_auto_topic_creation=False) as cluster:
        await cluster.create_namespace()
        path = "/lookup/v2/topic/persistent/public/ns/t"
        assert "Topic not found" in (await cluster.expect(404, "GET", path)).reason
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/t")
        await cluster.expect(200, "GET", path)
        await cluster.expect(404, "GET", "/lookup/v2/topic/persistent/public/ns/other")
        await cluster.expect(200, "GET", "/lookup/v2/topic/non-persistent/public/ns/other")


async def test_more_lookups_than_the_limit_are_told_to_come_later() -> None:
    async with rest_cluster(max_concurrent_lookup_request=1) as cluster:
        await cluster.create_namespace(bundles=64)
        paths = [f"/lookup/v2/topic/persistent/public/ns/t{index}" for index in range(40)]
        answers = await asyncio.gather(*(cluster.call("GET", path) for path in paths))
        statuses = {answer.status for answer in answers}
        assert statuses == {200, 503}
        refused = next(answer for answer in answers if answer.status == 503)
        assert "maxConcurrentLookupRequest" in refused.reason
