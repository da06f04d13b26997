"""The screen of `barycenter top`: what it shows of a cluster, and the effect of each key."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.ask.top import seen_at
from pulsar_barycenter.cli.asking.client import asking_client
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.questions.topics import MAX_BUNDLES, MAX_TOPICS, SeenTopics, topics_of
from pulsar_barycenter.screen.top_screen import MAX_SHOWN, ClusterView, TopScreen
from pulsar_barycenter.status.board import Board, BundleRow, TopicRow, board_of
from pulsar_barycenter.status.cluster_status import BrokerStatus
from support.rest_cluster import RestCluster

NOW_MS = 1_763_000_000_000
HOUR_S = 3_600.0
SIZE = (160, 40)


def snapshot(bundles: int = 4) -> SnapshotDocument:
    """Three brokers; the first is the busiest, and bundle number n has n msg/s."""
    stats = {f"t/n/{number:#010x}": NamespaceBundleStats(msg_rate_in=number, topics=1) for number in range(bundles)}
    names = list(stats)
    brokers = {
        f"b{place}:8080": LocalBrokerData(
            broker_id=f"b{place}:8080",
            cpu=ResourceUsage(90 - 30 * place, 100),
            last_stats={name: stats[name] for name in names[place::3]},
            last_update=NOW_MS - 1_000,
        )
        for place in range(3)
    }
    return SnapshotDocument(taken_at=NOW_MS, brokers=brokers)


def decision(number: int, bundle: str, sentence: str) -> DecisionRecord:
    return DecisionRecord(
        at=NOW_MS + number,
        by="b0:8080",
        number=number,
        kind="unload",
        reason=Reason(code=Code.PREALLOCATED),
        sentence=sentence,
        bundle=bundle,
        source="b0:8080",
        destination="b2:8080",
    )


DECISIONS = [decision(1, "t/n/0x00000003", "it is [too] hot"), decision(2, "t/n/0x00000001", "another")]


def seen(bundles: int = 4) -> ClusterView:
    return ClusterView("about", board_of(snapshot(bundles)), DECISIONS)


class Cluster:
    """Answers with `says`; None is no answer. Each bundle has a topic a and a topic b, which no client uses."""

    def __init__(self, says: ClusterView | None) -> None:
        self.says = says
        self.asked: list[list[str]] = []

    async def ask(self) -> ClusterView:
        if self.says is None:
            raise ClusterError("no \x1b[31manswer")
        return self.says

    async def topics(self, bundles: Sequence[BundleRow]) -> SeenTopics:
        if self.says is None:
            raise ClusterError("no answer of topics")
        self.asked.append([each.bundle for each in bundles])
        rows = []
        for each in bundles:
            a, b = (f"persistent://t/n/{name}-{int(each.bundle[-8:], 16)}" for name in "ab")
            rate = each.msg_rate_in
            rows.append(TopicRow(topic=a, bundle=each.bundle, broker=each.broker, msg_rate_in=rate, backlog=9))
            rows.append(TopicRow(topic=b, bundle=each.bundle, broker=each.broker, is_known=False))
        return SeenTopics(rows, len(rows) + 1)


def screen(cluster: Cluster) -> TopScreen:
    return TopScreen(cluster.ask, cluster.topics, HOUR_S)


async def shown(pilot: Pilot[None], table: str) -> list[list[str]]:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    rows = pilot.app.query_one(f"#{table}-rows", DataTable)
    return [[str(cell) for cell in rows.get_row_at(place)] for place in range(rows.row_count)]


def text(pilot: Pilot[None], name: str) -> str:
    return str(pilot.app.screen.query_one(name, Static).render())


async def test_brokers_are_shown_the_busiest_first_and_order_as_asked() -> None:
    async with screen(Cluster(seen())).run_test(size=SIZE) as pilot:
        assert [row[0] for row in await shown(pilot, "brokers")] == ["b0:8080", "b1:8080", "b2:8080"]
        await pilot.press("r")
        assert [row[0] for row in await shown(pilot, "brokers")] == ["b2:8080", "b1:8080", "b0:8080"]
        assert (await shown(pilot, "brokers"))[2][7:9] == ["90.0", "90.0"]


async def test_enter_goes_from_a_broker_to_its_bundles_to_topics_to_why() -> None:
    async with screen(Cluster(seen())).run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("1", "enter")
        rows = await shown(pilot, "bundles")
        assert [row[:2] for row in rows] == [["t/n/0x00000003", "b0:8080"], ["t/n/0x00000000", "b0:8080"]]
        await pilot.press("enter")
        topics = await shown(pilot, "topics")
        assert [row[0] for row in topics] == ["persistent://t/n/a-3", "persistent://t/n/b-3"]
        assert [row[2] for row in topics] == ["3", "-"]
        assert "topics of t/n/0x00000003; the first 2 of 3" in text(pilot, "#about")
        await pilot.press("enter")
        await pilot.pause()
        story = text(pilot, "#story Static")
        assert "it is [too] hot" in story
        assert "another" not in story
        await pilot.press("escape", "2", "escape")
        assert len(await shown(pilot, "bundles")) == 4
        await pilot.press("w")
        await pilot.pause()
        assert "it is [too] hot" in text(pilot, "#story Static")


async def test_topics_are_those_of_the_heaviest_bundles_sorted_and_filtered_and_asked_for_only_when_shown() -> None:
    cluster = Cluster(seen(2 * MAX_BUNDLES))
    app = screen(cluster)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        assert cluster.asked == []
        await pilot.press("4")
        rows = await shown(pilot, "topics")
        (asked,) = {tuple(each) for each in cluster.asked}
        assert len(asked) == MAX_BUNDLES
        assert asked[0] == f"t/n/{2 * MAX_BUNDLES - 1:#010x}"
        assert (rows[0][2], rows[0][6], rows[-1][2]) == (str(2 * MAX_BUNDLES - 1), "9", "-")
        await pilot.press("s", "r")
        assert (await shown(pilot, "topics"))[0][0].startswith("persistent://")
        await pilot.press("slash", *"b-")
        assert {row[2] for row in await shown(pilot, "topics")} == {"-"}
        await pilot.press("enter", "escape")
        assert len(await shown(pilot, "topics")) == len(rows)
        cluster.says = None
        app.look_at_topics()
        assert len(await shown(pilot, "topics")) == len(rows)
        assert text(pilot, "#trouble") == "no answer of topics"


async def test_a_filter_keeps_rows_with_all_its_words() -> None:
    async with screen(Cluster(seen())).run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("3", "slash", *"HOT")
        assert [row[2] for row in await shown(pilot, "decisions")] == ["t/n/0x00000003"]
        await pilot.press("enter", "escape")
        assert [row[2] for row in await shown(pilot, "decisions")] == ["t/n/0x00000001", "t/n/0x00000003"]
        assert pilot.app.query_one("#words", Input).value == "HOT"


async def test_a_filter_that_no_row_has_is_the_name_of_a_topic() -> None:
    """A user who does not know bundles finds a topic's, and the decisions about it."""
    names = ("public/default/0x00000000_0xffffffff", "t/n/0x00000000_0xffffffff")
    board = Board(0, (), tuple(BundleRow(bundle=name, broker="b0:8080") for name in names))
    decisions = [decision(number, name, "why") for number, name in enumerate(names)]
    async with screen(Cluster(ClusterView("about", board, decisions))).run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("2", "slash", *"orders")
        assert [row[0] for row in await shown(pilot, "bundles")] == [names[0]]
        assert "the bundle of topic “orders”" in text(pilot, "#about")
        await pilot.press("enter", "3", "slash", *"t/n/orders")
        assert [row[2] for row in await shown(pilot, "decisions")] == [names[1]]


async def test_of_many_bundles_the_first_are_shown_and_the_rest_told() -> None:
    async with screen(Cluster(seen(2 * MAX_SHOWN))).run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("2")
        rows = await shown(pilot, "bundles")
        assert len(rows) == MAX_SHOWN
        assert rows[0][0] == f"t/n/{2 * MAX_SHOWN - 1:#010x}"
        assert f"the first {MAX_SHOWN} of {2 * MAX_SHOWN:,} bundles" in text(pilot, "#about")


async def test_the_cursor_stays_with_its_row_and_a_silent_cluster_with_what_it_said() -> None:
    cluster = Cluster(seen())
    app = screen(cluster)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("1", "down")
        board = cluster.says.board if cluster.says else None
        assert board is not None
        calm = tuple(
            BrokerStatus(broker=each.broker, max_usage=10.0 if each.broker == "b1:8080" else 50.0)
            for each in board.brokers
        )
        cluster.says = ClusterView("about", replace(board, brokers=calm), DECISIONS)
        app.look()
        rows = await shown(pilot, "brokers")
        assert rows[2][0] == "b1:8080"
        assert app.query_one("#brokers-rows", DataTable).cursor_row == 2
        cluster.says = None
        app.look()
        assert await shown(pilot, "brokers") == rows
        assert text(pilot, "#trouble") == "no �[31manswer"


async def test_a_running_cluster_is_seen(tmp_path: Path) -> None:
    cluster = RestCluster()
    try:
        broker = await cluster.add(load_manager_factory("ModularLoadManagerImpl"), barycenter_data_dir=str(tmp_path))
        await cluster.create_namespace(bundles=1)
        await cluster.owner("persistent/public/ns/t")
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/t")
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/t/subscription/s")
        found = await seen_at(str(broker.urls.web_url))
        bundle = BundleRow(bundle="public/ns/0x00000000_0xffffffff", broker=broker.broker_id)
        topics = await topics_of(asking_client, str(broker.urls.web_url), [bundle])
        for number in range(MAX_TOPICS):
            await cluster.expect(204, "PUT", f"/admin/v2/persistent/public/ns/more-{number}")
        many = await topics_of(asking_client, str(broker.urls.web_url), [bundle])
        gone = await topics_of(
            asking_client, str(broker.urls.web_url), [BundleRow(bundle="no/where/0x00000000_0xffffffff")]
        )
    finally:
        await cluster.close()
    assert [each.broker for each in found.board.brokers] == [broker.broker_id]
    assert [(each.kind, each.bundle) for each in found.decisions] == [
        ("elect", ""),
        ("assign", "public/ns/0x00000000_0xffffffff"),
    ]
    assert [(row.topic, row.bundle, row.subscriptions) for row in topics.rows] == [
        ("persistent://public/ns/t", bundle.bundle, 1)
    ]
    assert (len(many.rows), many.count, gone) == (MAX_TOPICS, MAX_TOPICS + 1, SeenTopics([], 0))
    with pytest.raises(ClusterError):
        await seen_at("http://127.0.0.1:9")
    with pytest.raises(ClusterError):
        await topics_of(asking_client, "http://127.0.0.1:9", [bundle])


def test_without_a_terminal_it_says_what_to_use() -> None:
    told = CliRunner().invoke(main, ["top"])
    assert told.exit_code == 2
    assert "barycenter status" in told.stderr
