"""The parts of the dashboard over REST: its files, the picture of the cluster, the time line, followed redirects."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import relaying_client
from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.broker.load_manager.pipeline_feed import PipelineState
from pulsar_barycenter.broker.rest.dashboard import leaders_view
from pulsar_barycenter.broker.rest.relay import FOLLOW, passed_on
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, encode_report
from support.known_roles import ASKED, ROOT, as_role
from support.rest_cluster import Answer, RestCluster

OVERVIEW = "/barycenter/v1/overview"
TIMELINE = "/barycenter/v1/timeline"
FOLLOWING = {FOLLOW: "redirects"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[RestCluster]:
    cluster = RestCluster()
    try:
        for number in range(2):
            await cluster.add(
                configured_load_manager, broker_shutdown_timeout_ms=0, barycenter_data_dir=str(tmp_path / str(number))
            )
        await cluster.create_namespace(bundles=4)
        yield cluster
    finally:
        await cluster.close()


def leader_of(cluster: RestCluster) -> Broker:
    return next(broker for broker in cluster.brokers if broker.leadership.is_leader())


def follower_of(cluster: RestCluster) -> Broker:
    return next(broker for broker in cluster.brokers if not broker.leadership.is_leader())


async def sent(at: Broker, path: str, headers: dict[str, str], method: str = "GET") -> Answer:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{at.urls.web_url}{path}", headers=headers, allow_redirects=False) as answer,
    ):
        return Answer(answer.status, await answer.read(), answer.headers)


async def test_the_page_may_load_and_ask_nothing_but_its_broker_and_stand_in_no_frame(cluster: RestCluster) -> None:
    page = await cluster.expect(200, "GET", "/")
    assert page.headers["Content-Type"].startswith("text/html")
    policy = page.headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert b"<script>" not in page.body
    assert b"style=" not in page.body
    for file in ("main.js", "dashboard.css", "base.css"):
        found = await cluster.expect(200, "GET", f"/dashboard/{file}")
        assert found.headers["X-Content-Type-Options"] == "nosniff"
    again = await sent(cluster.brokers[0], "/", {"If-None-Match": page.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("name", ["__init__.py", "none.js", "..%2Fpage_files.py", "%2Fetc%2Fpasswd"])
async def test_nothing_but_the_files_of_the_page_is_served(cluster: RestCluster, name: str) -> None:
    assert (await cluster.call("GET", f"/dashboard/{name}")).status in (404, 412)


async def test_a_link_from_elsewhere_opens_the_page_and_asks_nothing_else(cluster: RestCluster) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    broker = cluster.brokers[0]
    assert (await sent(broker, "/", link)).status == 200
    assert (await sent(broker, OVERVIEW, link)).status == 403
    assert (await sent(broker, "/", link | {"Sec-Fetch-Dest": "iframe"})).status == 403
    assert (await sent(broker, "/", link | {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"})).status == 403


async def test_any_broker_shows_the_leaders_picture_to_who_cannot_follow_redirects(cluster: RestCluster) -> None:
    leader, follower = leader_of(cluster), follower_of(cluster)
    plain = await sent(follower, OVERVIEW, {})
    assert plain.status == 307
    assert plain.location.startswith(str(leader.urls.web_url))

    shown = await sent(follower, OVERVIEW, FOLLOWING)
    assert shown.status == 200
    assert shown.json["leader"] == leader.broker_id
    assert shown.json["epoch"] == leader.leadership.epoch().number
    assert [each["broker"] for each in shown.json["brokers"]] == sorted(each.broker_id for each in cluster.brokers)

    again = await sent(follower, OVERVIEW, FOLLOWING | {"If-None-Match": shown.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")


async def test_a_pipeline_that_is_late_is_told_and_one_that_there_is_not_is_not(
    cluster: RestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = leader_of(cluster)
    monkeypatch.setattr(leaders_view, "FRESH_S", 0.0)
    state = PipelineState(in_use=False, lag_ms=0, is_late=False)
    looking, silent, late = (
        {"inUse": True, "lagS": 2, "silentS": 0},
        {"inUse": True, "lagS": 0, "silentS": 70},
        {"inUse": False, "lagS": 95, "silentS": 0},
    )
    for expected in (None, looking, silent, late):
        if expected is not None:
            state = PipelineState(
                in_use=bool(expected["inUse"]),
                lag_ms=1000 * expected["lagS"] + 9,
                is_late=not expected["inUse"],
                silent_ms=1000 * expected["silentS"] + 9,
                is_silent=expected["silentS"] > 0,
            )
        monkeypatch.setattr(leader.control.load_manager, "pipeline_state", lambda state=state: state)
        assert (await sent(leader, OVERVIEW, {})).json["pipeline"] == expected


async def test_who_looks_later_sees_the_load_that_was_looked_at_before(cluster: RestCluster) -> None:
    follower = follower_of(cluster)
    path = "/barycenter/v1/load-history"
    assert (await sent(follower, path, FOLLOWING)).json["moments"] == []
    await sent(follower, OVERVIEW, FOLLOWING)
    [moment] = (await sent(follower, path, FOLLOWING)).json["moments"]
    assert [load[0] for load in moment["brokers"]] == sorted(broker.broker_id for broker in cluster.brokers)


async def test_a_redirect_out_of_the_cluster_is_not_followed(cluster: RestCluster) -> None:
    """An address in another cluster must not make brokers request what only they reach."""
    await cluster.expect(200, "PUT", "/admin/v2/clusters/other", {"serviceUrl": "http://127.0.0.1:9"})
    answer = await sent(cluster.brokers[0], "/admin/v2/brokers/other", FOLLOWING)
    assert answer.status == 307
    assert answer.location.startswith("http://127.0.0.1:9/")


def test_credentials_go_with_a_request_that_is_passed_on_and_cookies_and_origin_stay() -> None:
    headers = {"Authorization": "Bearer abc", "Cookie": "a=b", "Origin": "http://x", FOLLOW: "redirects", "Host": "x"}
    headers["X-Original-Principal"] = "alice"
    assert passed_on(make_mocked_request("GET", "/", headers)) == {
        "Authorization": "Bearer abc",
        "X-Original-Principal": "alice",
    }


async def test_what_is_done_through_another_broker_is_done(cluster: RestCluster) -> None:
    owner = await cluster.owner("persistent/public/ns/t")
    other = next(broker for broker in cluster.brokers if broker is not owner)
    [bundle] = [str(each) for each in owner.control.ownership.held_bundles() if str(each).startswith("public/ns/")]
    answer = await sent(other, f"/admin/v2/namespaces/{bundle}/unload", FOLLOWING, "PUT")
    assert answer.status == 204
    assert not [each for each in owner.control.ownership.held_bundles() if str(each) == bundle]


async def test_the_time_line_has_the_decisions_of_all_brokers_each_once_in_order(cluster: RestCluster) -> None:
    for topic in range(6):
        await cluster.owner(f"persistent/public/ns/t{topic}")
    leader, follower = leader_of(cluster), follower_of(cluster)
    told: list[dict[str, Any]] = (await cluster.expect(200, "GET", "/barycenter/v1/decisions", at=leader)).json
    assert told
    shown = (await sent(follower, f"{TIMELINE}?of=cluster", FOLLOWING)).json
    assert shown == (await sent(leader, f"{TIMELINE}?of=cluster", FOLLOWING)).json
    assert [(each["at"], each["by"], each["number"]) for each in shown] == sorted(
        (each["at"], each["by"], each["number"]) for each in shown
    )
    mine = [each for each in shown if each["by"] == leader.broker_id]
    assert [each["sentence"] for each in mine] == [each["sentence"] for each in told]
    assert all("reason" not in each and each["short"] for each in shown)

    [first, *_] = [each["bundle"] for each in shown if each.get("bundle")]
    of_one = (await sent(follower, f"{TIMELINE}?of=leader&bundle={first}", FOLLOWING)).json
    assert {each["bundle"] for each in of_one} == {first}
    gone = LocalBrokerData(web_service_url="http://127.0.0.1:9", broker_id="127.0.0.1:9")
    await cluster.store.put("/loadbalance/brokers/127.0.0.1:9", encode_report(gone))
    await follower.control.registration.refresh()
    assert (await sent(follower, f"{TIMELINE}?of=cluster", FOLLOWING)).json[: len(shown)] == shown  # one is silent
    assert len((await sent(follower, f"{TIMELINE}?of=cluster&limit=1", FOLLOWING)).json) == 1
    assert (await sent(follower, f"{TIMELINE}?of=nobody", FOLLOWING)).status == 400


async def test_the_time_line_reaches_back_beyond_the_life_of_a_broker(tmp_path: Path) -> None:
    """The leader is gone, and no broker remembers its decisions: the logs of the folder have them."""
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(configured_load_manager, broker_shutdown_timeout_ms=0, barycenter_data_dir=str(tmp_path))
        await cluster.create_namespace(bundles=4)
        for topic in range(6):
            await cluster.owner(f"persistent/public/ns/t{topic}")
        leader, other = leader_of(cluster), follower_of(cluster)
        before = (await sent(other, f"{TIMELINE}?of=cluster", FOLLOWING)).json
        assert {each["by"] for each in before} == {leader.broker_id}
        await leader.stop()
        cluster.brokers.remove(leader)
        assert (await sent(other, f"{TIMELINE}?of=cluster", FOLLOWING)).json[: len(before)] == before
        assert len((await sent(other, f"{TIMELINE}?of=cluster&limit=0", FOLLOWING)).json) == 0
    finally:
        await cluster.close()


async def explained(cluster: RestCluster, **query: str) -> dict[str, Any]:
    """Return the answer of the broker that does not lead, which is the leader's."""
    pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    answer = await sent(follower_of(cluster), f"/barycenter/v1/explanation?{pairs}", FOLLOWING)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


async def test_asking_where_a_topic_is_gives_nobody_its_bundle_and_says_where_it_would_go(cluster: RestCluster) -> None:
    topic = "persistent://public/ns/not there yet"
    found = await explained(cluster, topic=topic)
    assert found["exists"] is False
    assert found["owner"] == ""
    assert found["placed"]["destination"] in {broker.broker_id for broker in cluster.brokers}
    assert found["placed"]["sentence"]
    bundle = found["bundle"]
    assert all(bundle not in map(str, broker.control.ownership.held_bundles()) for broker in cluster.brokers)

    owner = await cluster.owner("persistent/public/ns/not%20there%20yet")
    assert (await explained(cluster, topic=topic))["owner"] == owner.broker_id
    assert (await explained(cluster, bundle=bundle))["owner"] == owner.broker_id


async def test_a_partitioned_topic_is_told_part_by_part(cluster: RestCluster) -> None:
    await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/parts/partitions", 3)
    found = await explained(cluster, topic="persistent://public/ns/parts")
    assert found["partitionCount"] == 3
    assert [each["topic"] for each in found["partitions"]] == [
        f"persistent://public/ns/parts-partition-{index}" for index in range(3)
    ]
    assert {each["bundle"].rpartition("/")[0] for each in found["partitions"]} == {"public/ns"}


async def test_a_move_is_told_before_it_is_made(cluster: RestCluster) -> None:
    await cluster.owner("persistent/public/ns/t")
    bundle = (await explained(cluster, topic="persistent://public/ns/t"))["bundle"]
    owner = (await explained(cluster, bundle=bundle))["owner"]
    [other] = [broker.broker_id for broker in cluster.brokers if broker.broker_id != owner]
    move = (await explained(cluster, bundle=bundle, destination=other))["move"]
    assert move["bundle"] == bundle
    assert move["objection"] == ""
    assert (await explained(cluster, bundle=bundle, destination="nobody:1"))["move"]["objection"]


async def test_a_broker_and_a_namespace_are_told_of_and_what_there_is_not_is_not(cluster: RestCluster) -> None:
    for topic in range(8):
        await cluster.owner(f"persistent/public/ns/t{topic}")
    found = await explained(cluster, namespace="public/ns")
    assert found["bundleCount"] == 4
    assert len(found["bundles"]) == 4
    leader = leader_of(cluster).broker_id
    verdicts = [line for line in (await explained(cluster, broker=leader))["lines"] if line["kind"] == "verdict"]
    assert [line["broker"] for line in verdicts] in ([leader], [])  # none before the first report
    for query, status in (
        ("broker=nobody:1", 404),
        ("namespace=public/none", 404),
        ("bundle=public/ns", 412),
        ("topic=a://b", 412),
        ("", 400),
        ("broker=a&namespace=public/ns", 400),
    ):
        answer = await sent(leader_of(cluster), f"/barycenter/v1/explanation?{query}", {})
        assert answer.status == status, (query, answer.body)


SETTINGS = "/barycenter/v1/settings"
INTERVAL = "loadBalancerSheddingIntervalMinutes"


async def test_settings_say_where_they_come_from_and_what_a_change_would_do(cluster: RestCluster) -> None:
    async def told(key: str) -> dict[str, Any]:
        [found] = [each for each in (await cluster.expect(200, "GET", SETTINGS)).json if each["key"] == key]
        return dict(found)

    assert (await told("clusterName"))["source"] == "default"
    assert (await told("webServicePort"))["source"] == "broker.conf"
    before = await told(INTERVAL)
    assert (before["source"], before["override"], before["isDynamic"]) == ("default", None, True)

    preview = (await cluster.expect(200, "GET", f"{SETTINGS}/{INTERVAL}", value="7")).json
    assert preview["changes"] == {INTERVAL: "7"}
    assert (preview["before"], preview["after"]) == (before["value"], "7")
    assert await told(INTERVAL) == before  # nothing was changed
    for key, value in ((INTERVAL, "-1"), (INTERVAL, "seven"), ("clusterName", "x"), ("noSuchKey", "1")):
        assert (await cluster.call("GET", f"{SETTINGS}/{key}", value=value)).status == 412, (key, value)

    await cluster.expect(200, "POST", f"/admin/v2/brokers/configuration/{INTERVAL}/7")
    after = await told(INTERVAL)
    assert (after["value"], after["source"], after["override"]) == ("7", "dynamic", "7")


async def test_a_split_is_told_before_it_is_made_and_is_made_so(cluster: RestCluster) -> None:
    for topic in range(12):
        await cluster.owner(f"persistent/public/ns/t{topic}")
        await cluster.expect(204, "PUT", f"/admin/v2/persistent/public/ns/t{topic}")
    bundle = (await explained(cluster, topic="persistent://public/ns/t0"))["bundle"]
    path = f"/barycenter/v1/split-preview?bundle={quote(bundle, safe='')}"
    for broker in cluster.brokers:
        preview = (await sent(broker, path, FOLLOWING)).json
        assert len(preview["parts"]) == 2
    topics = (await cluster.expect(200, "GET", "/admin/v2/persistent/public/ns", bundle=bundle.rpartition("/")[2])).json
    assert sum(part["topics"] for part in preview["parts"]) == len(topics)
    assert (await explained(cluster, bundle=bundle))["owner"]  # still there

    await cluster.expect(204, "PUT", f"/admin/v2/namespaces/{bundle}/split")
    edges = (await cluster.expect(200, "GET", "/admin/v2/namespaces/public/ns/bundles")).json["boundaries"]
    assert {edge for part in preview["parts"] for edge in part["range"].split("_")} <= set(edges)
    assert (await sent(follower_of(cluster), path, FOLLOWING)).status == 412
    assert (await sent(leader_of(cluster), f"{path}&splitAlgorithmName=none", FOLLOWING)).status == 412


async def test_a_drain_is_told_before_it_is_done_and_leaves_the_broker_alone_until_then(cluster: RestCluster) -> None:
    await cluster.owner("persistent/public/ns/t0")
    for broker in cluster.brokers:
        await broker.control.load_manager.write_report(force=True)
    bundle = (await explained(cluster, topic="persistent://public/ns/t0"))["bundle"]
    owner = (await explained(cluster, bundle=bundle))["owner"]
    others = {broker.broker_id for broker in cluster.brokers} - {owner}
    for broker in cluster.brokers:
        told = (await sent(broker, f"/barycenter/v1/drain-preview?broker={owner}", FOLLOWING)).json
        assert (told["isDrained"], told["value"], told["without"]) == (False, owner, ",")
        [group] = told["groups"]  # one reason, given once
        assert (group["destination"] in others, bool(group["why"])) == (True, True)
        leaving = {each["bundle"] for each in group["bundles"]}
        assert bundle in leaving
        assert told["count"] == len(leaving)
        assert not [name for name in leaving if owner in name]  # its heartbeat is its own
        assert all(each["sentence"] for each in group["bundles"])
        sides = {side["broker"]: side for side in told["sides"]}
        assert sides.keys() == {owner, *others}
        assert sides[owner]["bundles"] == [len(leaving), 0]
        for name, sign in ((owner, -1), (group["destination"], 1)):
            before, after = sides[name]["bundles"]
            assert after == before + sign * len(leaving)
    assert (await explained(cluster, bundle=bundle))["owner"] == owner  # nothing happened
    assert (await cluster.expect(200, "GET", "/admin/v2/brokers/configuration/values")).json == {}

    path = f"/admin/v2/brokers/configuration/{told['key']}/{owner}"
    changed = await sent(leader_of(cluster), path, {"X-Barycenter-Why": "disk%20is%20broken"}, "POST")
    assert changed.status == 200
    told = (await cluster.expect(200, "GET", "/barycenter/v1/drain-preview", broker=owner)).json
    assert told["isDrained"]
    overview = (await cluster.expect(200, "GET", "/barycenter/v1/overview")).json
    shown = {each["broker"]: each["bundles"] for each in overview["brokers"]}
    assert {side["broker"]: side["bundles"][0] for side in told["sides"]} == shown, "their own bundles do not count"
    change = overview["drainChange"]
    assert (overview["drained"], change["by"], change["why"]) == ([owner], "anonymous", "disk is broken")
    assert (await cluster.call("GET", "/barycenter/v1/drain-preview", broker=others.pop())).status == 412  # nobody left
    assert (await cluster.call("GET", "/barycenter/v1/drain-preview", broker="nobody:1")).status == 404


async def test_what_nobody_owns_has_no_split_and_gets_no_owner_by_the_question(cluster: RestCluster) -> None:
    await cluster.create_namespace("public/idle", 1)
    bundle = "public/idle/0x00000000_0xffffffff"
    answer = await sent(
        follower_of(cluster), f"/barycenter/v1/split-preview?bundle={quote(bundle, safe='')}", FOLLOWING
    )
    assert answer.status == 412
    assert (await explained(cluster, bundle=bundle))["owner"] == ""


async def test_nobody_may_do_more_through_another_broker_than_at_once(tmp_path: Path) -> None:
    """A broker passes requests on as their sender: neither its token nor its name goes along."""
    cluster = RestCluster()
    try:
        for number in range(2):
            folder = str(tmp_path / str(number))
            await cluster.add(
                configured_load_manager, broker_shutdown_timeout_ms=0, barycenter_data_dir=folder, **ASKED
            )
        follower, leader = follower_of(cluster), leader_of(cluster)
        seen = (await sent(follower, f"{TIMELINE}?of=cluster", FOLLOWING | as_role(ROOT))).status
        assert (seen, (await sent(follower, OVERVIEW, FOLLOWING | as_role(ROOT))).status) == (200, 200)
        for role, status in (("", 401), ("somebody", 403)):
            assert (await sent(follower, OVERVIEW, FOLLOWING | as_role(role))).status == status
        client, url = relaying_client(follower.config.current, 1 << 20), f"{leader.urls.web_url}{OVERVIEW}"
        try:
            for role, status in (("", 401), ("somebody", 403), (ROOT, 200)):
                assert (await client.forward("GET", url, as_role(role), None)).status == status, role
        finally:
            await client.close()
    finally:
        await cluster.close()


async def test_balance_is_said_by_the_leader_with_what_its_strategy_makes_of_it(cluster: RestCluster) -> None:
    for broker in cluster.brokers:
        await broker.control.load_manager.write_report(force=True)
    found = (await sent(follower_of(cluster), "/barycenter/v1/balance", FOLLOWING)).json
    balance = found["balance"]
    assert balance["brokers"] == 2
    assert balance["measure"] == "usage above the mean"
    assert balance["state"] in ("balanced", "as even as bundles allow", "uneven")
    assert 0 <= balance["reachableAboveMean"] <= balance["aboveMean"]
    assert balance["fullest"] in balance["sentence"]
    assert (found["unloads"], found["short"] != "") == (0, True)
