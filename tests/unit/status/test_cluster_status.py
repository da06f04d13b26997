"""The status of a cluster, computed from a picture."""

from dataclasses import replace

import msgspec
import pytest

from pulsar_barycenter.doctor.catalogue import diagnose
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.picture import Picture
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.status.cluster_status import BrokerStatus, ClusterStatus, status_of
from support.doctor_pictures import BROKERS, BUNDLES, NOW_MS, SETTINGS, healthy, report, snapshot, with_broker

WHOLE = "0x00000000_0xffffffff"


def status(picture: Picture) -> ClusterStatus:
    return status_of(picture, diagnose(picture))


def of(picture: Picture, broker: str) -> BrokerStatus:
    (found,) = [each for each in status(picture).brokers if each.broker == broker]
    return found


def test_a_healthy_cluster() -> None:
    found = status(healthy())
    assert (found.leader, found.leaders, found.is_well, found.worst) == (BROKERS[0], (), True, None)
    assert (found.namespaces, found.bundles, found.owned_bundles) == (1, len(BUNDLES), len(BUNDLES))
    assert (found.is_apache_pulsar, found.cluster) == (False, SETTINGS["clusterName"])
    first = of(healthy(), BROKERS[0])
    assert (first.leads, first.bundles, first.cpu, first.reported_s_ago) == (True, 2, 20.0, 1.0)
    assert first.manager == ManagerKind.MODULAR


def test_what_is_not_known_is_none() -> None:
    unknown = ResourceUsage(-1.0, -1.0)
    changed = snapshot(brokers={BROKERS[0]: report(BROKERS[0], cpu=unknown, memory=ResourceUsage(float("nan"), 1.0))})
    picture = replace(healthy(), snapshot=changed)
    assert of(picture, BROKERS[0]).memory is None
    assert of(picture, BROKERS[1]) == BrokerStatus(broker=BROKERS[1], manager="modular", bundles=1)


def test_the_load_of_the_extensible_manager_is_what_its_topics_tell() -> None:
    load = BrokerLoadData(cpu=ResourceUsage(25, 100), bundle_count=7, topics=9, reported_at=NOW_MS - 2_000)
    picture = replace(healthy(), snapshot=snapshot(brokers={}, extensible=ExtensibleDocument(loads={BROKERS[2]: load})))
    third = of(picture, BROKERS[2])
    assert (third.cpu, third.max_usage, third.topics, third.reported_s_ago) == (25.0, 25.0, 9, 2.0)
    assert third.bundles == 1, "what it says that it serves, not what it reported"
    assert of(with_broker(picture, BROKERS[2], owned=None), BROKERS[2]).bundles == 7


def test_the_bundles_of_brokers_are_those_that_are_counted_as_served() -> None:
    """A broker's own bundles, its heartbeats, are none of the namespaces' bundles."""
    picture = healthy()
    for each in picture.brokers or ():
        own = {f"pulsar/{each.broker}/{WHOLE}": True, f"pulsar/standalone/{each.broker}/{WHOLE}": True}
        picture = with_broker(picture, each.broker, owned={**(each.owned or {}), **own})
    found = status(picture)
    assert sum(each.bundles or 0 for each in found.brokers) == found.owned_bundles == len(BUNDLES)

    stats = {f"pulsar/{BROKERS[1]}/{WHOLE}": NamespaceBundleStats(), BUNDLES[1]: NamespaceBundleStats()}
    told = snapshot(brokers={BROKERS[1]: report(BROKERS[1], last_stats=stats, num_bundles=2)})
    silent = with_broker(replace(picture, snapshot=told), BROKERS[1], owned=None)
    assert of(silent, BROKERS[1]).bundles == 1


def test_without_a_snapshot_it_is_what_brokers_report_themselves() -> None:
    foreign = {key: text for key, text in SETTINGS.items() if not key.startswith("barycenter")}
    picture = replace(healthy(), snapshot=None, store=None)
    for broker in BROKERS:
        picture = with_broker(picture, broker, settings=foreign, report=report(broker, num_topics=3), version="4.2.4")
    found = status(picture)
    assert found.is_apache_pulsar
    assert {(each.topics, each.cpu, each.version) for each in found.brokers} == {(3, 20.0, "4.2.4")}


def test_brokers_that_disagree_on_the_leader_are_told() -> None:
    found = status(with_broker(healthy(), BROKERS[1], leader=BROKERS[2]))
    assert (found.leader, found.leaders) == ("", (BROKERS[0], BROKERS[2]))
    assert not found.is_well


def test_a_broker_that_is_silent_keeps_the_load_that_is_known_of_it() -> None:
    picture = with_broker(healthy(), BROKERS[1], failure="no answer", owned=None, settings=None, leader=None)
    second = of(picture, BROKERS[1])
    assert (second.failure, second.cpu) == ("no answer", 20.0)
    assert status(picture).worst is not None
    assert status(picture).findings.total() == len(diagnose(picture).findings)


@pytest.mark.parametrize(("severity", "is_well"), [(Severity.INFO, True), (Severity.WARNING, False)])
def test_it_is_well_below_a_warning(severity: Severity, is_well: bool) -> None:
    found = diagnose(with_broker(healthy(), BROKERS[1], leader=BROKERS[2])).findings[0]
    changed = replace(diagnose(healthy()), findings=(msgspec.structs.replace(found, severity=severity),))
    assert status_of(healthy(), changed).is_well is is_well


def test_a_pipeline_that_looks_no_more_is_told_and_one_that_looks_is_not() -> None:
    assert status(healthy()).pipeline_silent_s is None
    assert status(replace(healthy(), pipeline_silent_s=30.0)).pipeline_silent_s is None
    silent = status(replace(healthy(), pipeline_silent_s=90.0))
    assert (silent.pipeline_silent_s, silent.is_well) == (90.0, False)
