"""Splits between two looks, each with what its reason is based on."""

from pathlib import Path

import pytest

from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.observer.recorded_settings import SETTINGS_FILE, RecordedSettings, append_settings
from pulsar_barycenter.operations.splitting import SplitEntry, SplitState, split_journal
from pulsar_barycenter.watch.sources.data_folder import DataFolder
from pulsar_barycenter.watch.splits_seen import SplitSeen, splits_seen
from pulsar_barycenter.watch.watched_cluster import WatchedCluster
from support.recorded_cluster import BEGIN_MS, BUNDLES, BUSY, MINUTE_MS, RATES, SETTINGS, SPARE, owners_at, reports_at

PARENT = BUNDLES[5]
LEFT, RIGHT = "shop/orders/0x50000000_0x58000000", "shop/orders/0x58000000_0x60000000"
SPLIT_MINUTE = 4
LIMIT = "loadBalancerNamespaceBundleMaxTopics"


@pytest.mark.parametrize(
    ("now", "parts"),
    [
        ({LEFT: "a", RIGHT: "b"}, (LEFT, RIGHT)),
        ({LEFT: "a"}, ()),
        ({RIGHT: "a"}, ()),
        ({LEFT: "a", "shop/orders/0x58000000_0x70000000": "a"}, ()),
        ({LEFT: "a", "shop/others/0x58000000_0x60000000": "a"}, ()),
        ({PARENT: "a", LEFT: "a", RIGHT: "a"}, ()),
        ({LEFT: "a", "shop/orders/0x58000000_0x5c000000": "a", "shop/orders/0x5c000000_0x60000000": "a"}, (LEFT,)),
        ({"shop/orders/what": "a"}, ()),
    ],
)
def test_a_bundle_was_split_if_others_cover_exactly_its_range(now: dict[str, str], parts: tuple[str, ...]) -> None:
    found = splits_seen({PARENT: "a", "shop/orders/odd": "a"}, now)
    if len(now) == 3 and parts:
        assert [(one.bundle, len(one.parts)) for one in found] == [(PARENT, 3)]
    else:
        assert found == ([SplitSeen(PARENT, "a", parts)] if parts else [])


def recorded(folder: Path, settings: dict[str, str], *, right: str = BUSY) -> None:
    """Record ten minutes; in the fifth one PARENT is split, and its right part goes to a broker."""
    log = FileReportLog(folder / "load-reports", retention_hours=10**6)
    (folder / "collect.json").touch()
    append_settings(folder / SETTINGS_FILE, RecordedSettings(at=BEGIN_MS, settings={**SETTINGS, **settings}))
    for minute in range(10):
        owners = owners_at(minute, ())
        if minute >= SPLIT_MINUTE:
            del owners[PARENT]
            owners |= {LEFT: BUSY, RIGHT: right}
        for report in reports_at(minute, owners):
            log.append(report)


async def watched(folder: Path) -> WatchedCluster:
    cluster = WatchedCluster()
    for look in await DataFolder(folder, span_ms=10**9).read():
        cluster.take(look)
    return cluster


@pytest.fixture(autouse=True)
def _rates_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (LEFT, RIGHT):
        monkeypatch.setitem(RATES, part, RATES[PARENT] / 2)


@pytest.mark.parametrize(
    ("settings", "basis", "agrees", "sentence"),
    [
        ({LIMIT: "3"}, "recomputed", True, "topics"),
        ({}, "recomputed", False, "leaves it whole: no load of it is above the cluster's limits for a bundle"),
        ({"loadBalancerAutoBundleSplitEnabled": "false"}, "seen", None, "a person or a program split it"),
    ],
)
async def test_a_split_is_shown_once_with_what_its_reason_is_based_on(
    settings: dict[str, str], basis: str, agrees: bool | None, sentence: str, tmp_path: Path
) -> None:
    recorded(tmp_path, settings)
    cluster = await watched(tmp_path)
    [split] = [one for one in cluster.decisions if one.kind == "split"]
    assert ((split.at - BEGIN_MS) // MINUTE_MS, split.bundle, split.source) == (SPLIT_MINUTE, PARENT, BUSY)
    assert (split.basis, split.agrees) == (basis, agrees)
    assert "into 0x50000000_0x58000000 and 0x58000000_0x60000000" in split.sentence
    assert sentence in split.sentence
    assert [one for one in cluster.decisions if one.kind == "unload"] == []


async def test_a_part_that_is_on_another_broker_has_moved(tmp_path: Path) -> None:
    recorded(tmp_path, {}, right=SPARE)
    [move] = [one for one in (await watched(tmp_path)).decisions if one.kind == "unload"]
    assert (move.bundle, move.source, move.destination) == (RIGHT, BUSY, SPARE)


async def test_a_split_by_balance_has_the_reason_of_its_journal(tmp_path: Path) -> None:
    recorded(tmp_path, {})
    at_ms = BEGIN_MS + (SPLIT_MINUTE - 1) * MINUTE_MS
    entry = SplitEntry(at=at_ms, by="b", bundle=PARENT, broker=BUSY, state=SplitState.BEGUN, why="12 topics > 10")
    split_journal(tmp_path / "splits.journal").append(entry)
    [split] = [one for one in (await watched(tmp_path)).decisions if one.kind == "split"]
    assert (split.basis, split.agrees) == ("journal", None)
    assert split.sentence.endswith("12 topics > 10")
