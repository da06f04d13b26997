"""A healthy cluster of three brokers as a picture, into which tests introduce faults."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pulsar_barycenter.config.broker_conf import dynamic_keys, runtime_values
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.doctor.finding import ClusterFinding
from pulsar_barycenter.doctor.picture import BrokerView, FileView, LedgersView, Lock, NamespaceView, Picture, StoreView
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.snapshot.document import SnapshotDocument

NOW_MS = 1_763_000_000_000
BROKERS = ("b1:8080", "b2:8080", "b3:8080")
SPACE = "t/n"
BOUNDARIES = ("0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff")
BUNDLES = tuple(f"{SPACE}/{lower}_{upper}" for lower, upper in pairwise(BOUNDARIES))
OWNERS = dict(zip(BUNDLES, ("b1:8080", "b2:8080", "b3:8080", "b1:8080"), strict=True))
FOLDER = "0f" * 16
SETTINGS = runtime_values(BrokerConfig())


def report(broker: str, **changed: Any) -> LocalBrokerData:
    figures = {
        "broker_id": broker,
        "last_update": NOW_MS - 1_000,
        "cpu": ResourceUsage(40, 200),
        "last_stats": {bundle: NamespaceBundleStats(topics=1) for bundle, owner in OWNERS.items() if owner == broker},
    }
    return LocalBrokerData(**{**figures, **changed})


def view(broker: str, **changed: Any) -> BrokerView:
    told: dict[str, Any] = {
        "clock_ms": (-200, 1_000),
        "registered": frozenset(BROKERS),
        "leader": BROKERS[0],
        "leads": broker == BROKERS[0],
        "owned": {bundle: True for bundle, owner in OWNERS.items() if owner == broker},
        "settings": SETTINGS,
        "overrides": {},
        "dynamic_keys": frozenset(dynamic_keys()),
        "boundaries": {SPACE: BOUNDARIES},
        "policies": {SPACE: {"deleted": False}},
    }
    return BrokerView(broker=broker, **{**told, **changed})


def snapshot(**changed: Any) -> SnapshotDocument:
    return SnapshotDocument(**{"taken_at": NOW_MS, "brokers": {each: report(each) for each in BROKERS}, **changed})


def store(**changed: Any) -> StoreView:
    told: dict[str, Any] = {
        "url": "sqlite:metadata.sqlite",
        "brokers": {each: report(each) for each in BROKERS},
        "leaders": {"/loadbalance/leader": BROKERS[0]},
        "locks": {bundle: Lock(owner) for bundle, owner in OWNERS.items()},
        "boundaries": {SPACE: BOUNDARIES},
        "copies": {SPACE: BOUNDARIES},
        "overrides": {},
        "ledgers_folder": FOLDER,
    }
    return StoreView(**{**told, **changed})


def healthy() -> Picture:
    return Picture(
        NOW_MS,
        brokers=tuple(map(view, BROKERS)),
        namespaces=(NamespaceView(SPACE, BOUNDARIES),),
        snapshot=snapshot(),
        store=store(),
        ledgers=LedgersView("/data/ledgers", FOLDER),
        file=FileView("broker.conf"),
    )


def with_broker(picture: Picture, broker: str, **changed: Any) -> Picture:
    """Return a picture in which one broker answers differently."""
    assert picture.brokers is not None
    told = tuple(replace(each, **changed) if each.broker == broker else each for each in picture.brokers)
    return replace(picture, brokers=told)


def subjects(check: Callable[[Picture], Any], picture: Picture) -> list[str]:
    return [finding.subject for finding in check(picture)]


def only(check: Callable[[Picture], Any], picture: Picture) -> ClusterFinding:
    (finding,) = check(picture)
    assert isinstance(finding, ClusterFinding)
    return finding
