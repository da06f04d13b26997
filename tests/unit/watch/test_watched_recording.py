"""What is told of a recorded cluster: its moves, each with its reason, and its load over time."""

import os
import re
from pathlib import Path

import msgspec
import pytest

from pulsar_barycenter.dashboard.timeline import BriefDecision
from pulsar_barycenter.load.policies import (
    AutoFailoverData,
    ClusterPolicies,
    IsolationPolicies,
    NamespaceIsolationData,
    stored_form,
)
from pulsar_barycenter.load.reports.load_over_time import load_question
from pulsar_barycenter.observer.recorded_policies import POLICIES_FILE, PoliciesFile, read_policies
from pulsar_barycenter.operations.journal import Entry, MoveState, move_journal
from pulsar_barycenter.watch.loads_seen import LoadsSeen
from pulsar_barycenter.watch.sources.data_folder import MAX_TIME_MS, DataFolder
from pulsar_barycenter.watch.sources.error import WatchError
from pulsar_barycenter.watch.watched_cluster import WatchedCluster
from support.recorded_cluster import (
    BEGIN_MS,
    BUNDLES,
    BUSY,
    BY_HAND,
    BY_HAND_MINUTE,
    CALM,
    GONE_MINUTE,
    MINUTE_MS,
    SHED,
    SHED_MINUTE,
    SPARE,
    owners_at,
    record,
    reports_at,
)

DAY_MS = 86_400_000


async def watched(folder: Path, *changes: str) -> WatchedCluster:
    cluster = WatchedCluster(changes)
    assert await took(DataFolder(folder, span_ms=DAY_MS), cluster)
    return cluster


async def took(source: DataFolder, cluster: WatchedCluster) -> int:
    looks = await source.read()
    for look in looks:
        cluster.take(look)
    return len(looks)


def moves(cluster: WatchedCluster) -> list[BriefDecision]:
    return [decision for decision in cluster.decisions if decision.kind == "unload"]


async def test_each_move_is_seen_once_with_what_its_reason_is_based_on(tmp_path: Path) -> None:
    record(tmp_path)
    cluster = await watched(tmp_path)
    found = [((move.at - BEGIN_MS) // MINUTE_MS, move.bundle, move.source, move.destination) for move in moves(cluster)]
    assert found == [
        *((SHED_MINUTE, bundle, BUSY, SPARE) for bundle in SHED),
        (BY_HAND_MINUTE, BY_HAND, CALM, BUSY),
        *((GONE_MINUTE + 2, bundle, CALM, SPARE) for bundle in BUNDLES[6:10] if bundle != BY_HAND),
    ]
    assert [(move.basis, move.agrees) for move in moves(cluster)] == [
        *[("recomputed", True)] * 2,
        ("recomputed", False),
        *[("seen", None)] * 3,
    ]
    shed, by_hand, gone = moves(cluster)[0], moves(cluster)[2], moves(cluster)[3]
    assert shed.strategy == "UniformLoadShedder"
    assert "heaviest remaining bundle that fits" in shed.sentence
    assert "lowest long-term message rate" in shed.sentence
    assert by_hand.sentence.startswith(f"UniformLoadShedder would not have moved it: {CALM}: another broker has the")
    assert gone.sentence == f"{CALM} is no longer in the cluster, so another broker serves the bundle"
    assert cluster.live == (BUSY, SPARE)


async def test_another_bundle_of_the_same_broker_is_named(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(SHED_MINUTE + 2), shed=(BUNDLES[5],))
    [move] = moves(await watched(tmp_path))
    assert move.agrees is False
    told = f"UniformLoadShedder would move 2 other bundles from {BUSY}, not this one: {SHED[0]}"
    assert move.sentence.startswith(told)


async def test_with_the_clusters_shedding_off_no_strategy_is_asked(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(SHED_MINUTE + 2))
    cluster = await watched(tmp_path, "loadBalancerSheddingEnabled=false")
    assert {(move.basis, move.agrees) for move in cluster.decisions} == {("seen", None)}
    assert "shedding was off" in moves(cluster)[0].sentence


async def test_a_move_of_balance_has_the_reason_of_its_journal(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(SHED_MINUTE + 2))
    at_ms = BEGIN_MS + (SHED_MINUTE - 1) * MINUTE_MS
    for bundle, state, at in ((SHED[0], MoveState.BEGUN, at_ms), (SHED[1], MoveState.BEGUN, at_ms - 2 * 3_600_000)):
        move_journal(tmp_path / "moves.journal").append(
            Entry(
                at=at, plan="p", by="x", bundle=bundle, source=BUSY, destination=SPARE, state=state, why="too much load"
            )
        )
    ours, old = moves(await watched(tmp_path))
    assert (ours.basis, ours.sentence) == ("journal", "barycenter balance moved it: too much load")
    assert old.basis == "recomputed"


async def test_a_strategy_that_is_not_known_here_is_said(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(SHED_MINUTE + 2))
    cluster = await watched(tmp_path, "loadBalancerLoadSheddingStrategy=com.example.Own")
    assert {move.basis for move in moves(cluster)} == {"seen"}
    assert "com.example.Own" in moves(cluster)[0].sentence


async def test_without_recorded_settings_the_defaults_are_assumed_and_that_is_said(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(SHED_MINUTE + 2))
    (tmp_path / "settings.jsonl").unlink()
    for move in moves(await watched(tmp_path)):
        assert move.sentence.endswith("No settings were recorded: Pulsar's defaults were assumed")


async def test_what_comes_later_is_read_and_counts_once(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(SHED_MINUTE))
    cluster, folder = WatchedCluster(), DataFolder(tmp_path, span_ms=DAY_MS)
    assert await took(folder, cluster)
    assert not await took(folder, cluster)
    assert moves(cluster) == []
    record(tmp_path, minutes=range(SHED_MINUTE, SHED_MINUTE + 2))
    assert await took(folder, cluster)
    assert [move.bundle for move in moves(cluster)] == list(SHED)


async def test_only_the_asked_time_before_the_newest_report_is_read(tmp_path: Path) -> None:
    record(tmp_path)
    cluster = WatchedCluster()
    await took(DataFolder(tmp_path, span_ms=5 * MINUTE_MS), cluster)
    assert cluster.loads.since_ms() == BEGIN_MS + 34 * MINUTE_MS + 200
    assert moves(cluster) == []


async def test_damaged_reports_are_left_out_and_counted(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(3))
    day = next((tmp_path / "load-reports").iterdir())
    (day / "x-1-1.json").write_bytes(b"{")
    (day / "y-1-1.json").write_bytes(b"{}")
    folder = DataFolder(tmp_path, span_ms=DAY_MS)
    assert await folder.read()
    [problem] = folder.problems()
    assert problem.startswith("2 reports cannot be read and are missing here: ")


async def test_files_that_are_no_reports_keep_nobody_from_looking(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(3))
    root = tmp_path / "load-reports"
    day = next(root.iterdir())
    whole = next(day.iterdir()).read_bytes()
    os.mkfifo(day / "a-1-1.json")
    (day / "b-1-1.json").mkdir()
    (day / "c-1-1.json").symlink_to("c-1-1.json")
    (day / "d-1-1.json").write_bytes(b'{"other":' + b"[" * 100_000)
    (day / "e-1-1.json").write_bytes(b'{"brokerId": "\xff"}')
    for number, time in enumerate((-1, MAX_TIME_MS + 1, 1 << 62)):
        (day / f"t-1-{number}.json").write_bytes(re.sub(rb'"lastUpdate":\d+', b'"lastUpdate":%d' % time, whole))
    (root / "2999-01-01").symlink_to("2999-01-01")
    os.mkfifo(tmp_path / "moves.journal")
    (tmp_path / "cluster.json").write_bytes(b'{"cluster": "\xff"}')
    folder = DataFolder(tmp_path, span_ms=DAY_MS)
    cluster = WatchedCluster()
    assert await took(folder, cluster)
    assert cluster.live
    problems = folder.problems()
    assert any("8 reports cannot be read and are missing here: " in problem for problem in problems)
    assert any("2999-01-01 cannot be read and is missing here" in problem for problem in problems)


async def test_a_folder_of_two_clusters_is_refused(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(2))
    record(tmp_path, minutes=range(2, 4), cluster="bills")
    with pytest.raises(
        WatchError, match="several clusters, orders and bills: record each cluster in a separate folder"
    ):
        await DataFolder(tmp_path, span_ms=DAY_MS).read()


def test_loads_over_time_follow_a_bundle_and_forget_the_oldest() -> None:
    seen, few = LoadsSeen(), LoadsSeen(most=40)
    for minute in range(30):
        for report in reports_at(minute, owners_at(minute, SHED)):
            seen.add(str(report.broker_id), report)
            few.add(str(report.broker_id), report)
    question = load_question(BEGIN_MS, BEGIN_MS + 30 * MINUTE_MS, MINUTE_MS, bundle=SHED[0])
    told = seen.answer(question, holds_ms=16 * MINUTE_MS)
    brokers = [moment.brokers[0].broker for moment in told.moments]
    assert len(brokers) == 30
    assert brokers == [*[BUSY] * SHED_MINUTE, *[SPARE] * (30 - SHED_MINUTE)]
    assert told.moments[0].brokers[0].msg_rate == pytest.approx(8_000)
    assert told.note == ""
    short = few.answer(question, holds_ms=16 * MINUTE_MS)
    assert len(short.moments) < 4
    assert short.note


def test_a_broker_that_is_silent_too_long_has_no_load() -> None:
    seen = LoadsSeen()
    for report in reports_at(0, owners_at(0, ())):
        seen.add(str(report.broker_id), msgspec.structs.replace(report, last_update=BEGIN_MS))
    question = load_question(BEGIN_MS, BEGIN_MS + 30 * MINUTE_MS, MINUTE_MS, broker=BUSY)
    told = seen.answer(question, holds_ms=5 * MINUTE_MS)
    assert [moment.at for moment in told.moments] == [BEGIN_MS // MINUTE_MS * MINUTE_MS]


async def test_a_strategy_with_a_memory_goes_on_from_round_to_round(tmp_path: Path) -> None:
    record(tmp_path, minutes=range(8), shed=())
    cluster = await watched(
        tmp_path, "loadBalancerLoadSheddingStrategy=AvgShedder", "loadBalancerLoadPlacementStrategy=AvgShedder"
    )
    waits, acts = [decision.sentence for decision in cluster.decisions if decision.kind == "shed"]
    assert waits.startswith("no broker has to shed load")
    assert "has lasted long enough (usage gap 86.33 % >= high threshold 40 %, rounds in a row 2 >= required 2)" in acts


async def test_recorded_policies_keep_bundles_where_they_were_bound_to(tmp_path: Path) -> None:
    data = NamespaceIsolationData(
        namespaces=(".*",),
        primary=(BUSY.partition(":")[0],),
        secondary=(),
        auto_failover_policy=AutoFailoverData("min_available", {"min_limit": "1", "usage_threshold": "100"}),
    )
    isolation, errors = IsolationPolicies.decode({"bound": stored_form(data)})
    assert not errors
    record(tmp_path)
    policies = PoliciesFile(tmp_path)
    policies.note(BEGIN_MS, ClusterPolicies(isolation))
    policies.note(BEGIN_MS + 1, ClusterPolicies(isolation))
    assert len(read_policies(tmp_path / POLICIES_FILE)) == 1, "a line for each change"
    cluster = await watched(tmp_path)
    assert [move.agrees for move in moves(cluster)[:2]] == [False, False]
    assert cluster.beside.policies.isolation.policies[0].name == "bound"


async def test_recorded_policies_that_cannot_be_followed_are_a_complaint(tmp_path: Path) -> None:
    record(tmp_path)
    line = {"at": BEGIN_MS, "policies": {"isolation": {"p": {"namespaces": []}}}}
    (tmp_path / POLICIES_FILE).write_bytes(msgspec.json.encode(line) + b"\n")
    source, cluster = DataFolder(tmp_path, span_ms=DAY_MS), WatchedCluster()
    assert await took(source, cluster)
    assert any("a recorded policy cannot be followed" in problem for problem in source.problems())
    assert [move.agrees for move in moves(cluster)[:2]] == [True, True]
