"""The screen of `barycenter top`: what it shows of a cluster, and what each key does."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from barycenter.broker.load_manager.factory import load_manager_factory
from barycenter.cli.ask.running_cluster import ClusterError
from barycenter.cli.ask.top import seen_at
from barycenter.cli.ask.top_screen import MOST_SHOWN, ClusterView, TopScreen
from barycenter.cli.main import main
from barycenter.load.reasons import Code, Reason
from barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from barycenter.load.snapshot.document import SnapshotDocument
from barycenter.logs.decision_log import DecisionRecord
from barycenter.status.board import board_of
from barycenter.status.cluster_status import BrokerStatus
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
    """Answers with `says`; None is no answer."""

    def __init__(self, says: ClusterView | None) -> None:
        self.says = says

    async def ask(self) -> ClusterView:
        if self.says is None:
            raise ClusterError("no \x1b[31manswer")
        return self.says


async def shown(pilot: Pilot[None], table: str) -> list[list[str]]:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    rows = pilot.app.query_one(f"#{table}-rows", DataTable)
    return [[str(cell) for cell in rows.get_row_at(place)] for place in range(rows.row_count)]


def text(pilot: Pilot[None], name: str) -> str:
    return str(pilot.app.screen.query_one(name, Static).render())


async def test_brokers_are_shown_the_busiest_first_and_order_as_asked() -> None:
    async with TopScreen(Cluster(seen()).ask, HOUR_S).run_test(size=SIZE) as pilot:
        assert [row[0] for row in await shown(pilot, "brokers")] == ["b0:8080", "b1:8080", "b2:8080"]
        await pilot.press("r")
        assert [row[0] for row in await shown(pilot, "brokers")] == ["b2:8080", "b1:8080", "b0:8080"]
        assert (await shown(pilot, "brokers"))[2][7:9] == ["90.0", "90.0"]


async def test_enter_goes_from_a_broker_to_its_bundles_to_why() -> None:
    async with TopScreen(Cluster(seen()).ask, HOUR_S).run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("1", "enter")
        rows = await shown(pilot, "bundles")
        assert [row[:2] for row in rows] == [["t/n/0x00000003", "b0:8080"], ["t/n/0x00000000", "b0:8080"]]
        await pilot.press("enter")
        await pilot.pause()
        story = text(pilot, "#story Static")
        assert "it is [too] hot" in story
        assert "another" not in story
        await pilot.press("escape", "escape")
        assert len(await shown(pilot, "bundles")) == 4


async def test_a_filter_keeps_rows_with_all_its_words() -> None:
    async with TopScreen(Cluster(seen()).ask, HOUR_S).run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("3", "slash", *"HOT")
        assert [row[2] for row in await shown(pilot, "decisions")] == ["t/n/0x00000003"]
        await pilot.press("enter", "escape")
        assert [row[2] for row in await shown(pilot, "decisions")] == ["t/n/0x00000001", "t/n/0x00000003"]
        assert pilot.app.query_one("#words", Input).value == "HOT"


async def test_of_many_bundles_the_first_are_shown_and_the_rest_told() -> None:
    async with TopScreen(Cluster(seen(2 * MOST_SHOWN)).ask, HOUR_S).run_test(size=SIZE) as pilot:
        await shown(pilot, "brokers")
        await pilot.press("2")
        rows = await shown(pilot, "bundles")
        assert len(rows) == MOST_SHOWN
        assert rows[0][0] == f"t/n/{2 * MOST_SHOWN - 1:#010x}"
        assert f"the first {MOST_SHOWN} of {2 * MOST_SHOWN:,} bundles" in text(pilot, "#about")


async def test_the_cursor_stays_with_its_row_and_a_silent_cluster_with_what_it_said() -> None:
    cluster = Cluster(seen())
    app = TopScreen(cluster.ask, HOUR_S)
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
        found = await seen_at(str(broker.urls.web_url))
    finally:
        await cluster.close()
    assert [each.broker for each in found.board.brokers] == [broker.broker_id]
    assert [(each.kind, each.bundle) for each in found.decisions] == [
        ("elect", ""),
        ("assign", "public/ns/0x00000000_0xffffffff"),
    ]
    with pytest.raises(ClusterError):
        await seen_at("http://127.0.0.1:9")


def test_without_a_terminal_it_says_what_to_use() -> None:
    told = CliRunner().invoke(main, ["top"])
    assert told.exit_code == 2
    assert "barycenter status" in told.stderr
