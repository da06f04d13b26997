"""Two owners, missing owners, and owners that differ."""

from dataclasses import replace

from pulsar_barycenter.doctor.checks.ownership import (
    owned_twice,
    owner_differs,
    owner_gone,
    stuck_records,
    unknown_bundles,
    unowned,
)
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.picture import Lock, NamespaceView, Picture
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from support.doctor_pictures import (
    BOUNDARIES,
    BUNDLES,
    NOW_MS,
    OWNERS,
    SETTINGS,
    SPACE,
    healthy,
    only,
    snapshot,
    store,
    subjects,
    with_broker,
)

FIRST = BUNDLES[0]
EXTENSIBLE = {**SETTINGS, "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name}


def holding(picture: Picture, broker: str, *bundles: str, serves: bool = True) -> Picture:
    return with_broker(picture, broker, owned=dict.fromkeys(bundles, serves))


def test_two_brokers_that_serve_one_bundle_are_critical_and_the_lock_says_who_is_right() -> None:
    finding = only(owned_twice, holding(healthy(), "b2:8080", FIRST))
    assert (finding.severity, finding.subject) == (Severity.CRITICAL, FIRST)
    assert "its lock names b1:8080" in finding.sentence
    assert subjects(owned_twice, holding(healthy(), "b2:8080", FIRST, serves=False)) == [], "it lets go of it"


def test_bundles_without_owner_are_told_a_namespace_a_line() -> None:
    picture = holding(healthy(), "b1:8080")
    space = NamespaceView(SPACE, BOUNDARIES, topics=dict.fromkeys(BUNDLES, 1))
    locks = {bundle: Lock("b2:8080") for bundle in BUNDLES[1:2]}
    picture = replace(picture, namespaces=(space,), store=store(locks=locks))
    finding = only(unowned, picture)
    assert (finding.severity, finding.subject) == (Severity.INFO, "t/n")
    assert finding.sentence.startswith("2 of 4 bundles have topics and no owner:")
    unsure = with_broker(picture, "b2:8080", owned=None)
    assert "b2:8080 did not answer and may own some" in only(unowned, unsure).sentence


def test_bundles_without_topics_need_no_owner() -> None:
    picture = replace(holding(healthy(), "b1:8080"), store=None)
    for topics in (None, {}, {BUNDLES[1]: 3}):  # not listed; none; those of a bundle that has an owner
        assert subjects(unowned, replace(picture, namespaces=(NamespaceView(SPACE, BOUNDARIES, topics=topics),))) == []


def test_a_cluster_that_is_stopped_owns_nothing_and_that_is_no_finding() -> None:
    assert subjects(unowned, Picture(NOW_MS, store=store(brokers={}, locks={}))) == []


def test_a_lock_of_a_broker_that_is_not_registered_is_told() -> None:
    picture = replace(healthy(), store=store(locks={**store().locks, FIRST: Lock("gone:8080")}))
    finding = only(owner_gone, picture)
    assert (finding.severity, finding.subject) == (Severity.ERROR, FIRST)
    assert f"/namespace/{FIRST}" in finding.mend


def test_a_record_of_a_broker_that_is_not_registered_is_told_by_the_store_and_by_the_leader() -> None:
    owned = ServiceUnitStateData(state=ServiceUnitState.OWNED, dst_broker="gone:8080")
    assert subjects(owner_gone, replace(healthy(), store=store(locks={}, records={FIRST: owned}))) == [FIRST]
    channel = ExtensibleDocument(owners={FIRST: "gone:8080"})
    picture = replace(healthy(), store=None, snapshot=snapshot(brokers={}, extensible=channel))
    assert subjects(owner_gone, picture) == [FIRST]


def test_a_lock_and_a_holder_that_differ_are_told() -> None:
    picture = replace(healthy(), store=store(locks={**store().locks, FIRST: Lock("b2:8080")}))
    finding = only(owner_differs, picture)
    assert finding.subject == FIRST
    assert "b1:8080 serves it, and its lock names b2:8080" in finding.sentence


def test_an_owner_that_does_not_serve_what_is_written_in_its_name_is_told_unless_it_is_on_its_way() -> None:
    picture = holding(healthy(), "b1:8080", BUNDLES[3])
    assert "no broker serves it" in only(owner_differs, picture).sentence
    moving = replace(picture, store=store(locks={**store().locks, FIRST: Lock("b1:8080", disabled=True)}))
    assert subjects(owner_differs, moving) == []


def test_a_holder_without_a_lock_is_critical_but_not_where_owners_are_records() -> None:
    locks = {bundle: Lock(owner) for bundle, owner in OWNERS.items() if bundle != FIRST}
    picture = replace(healthy(), store=store(locks=locks))
    assert only(owner_differs, picture).severity is Severity.CRITICAL
    assert subjects(owner_differs, with_broker(picture, "b1:8080", settings=EXTENSIBLE)) == []


def test_a_bundle_that_was_split_and_is_still_owned_is_told() -> None:
    assert subjects(unknown_bundles, holding(healthy(), "b2:8080", "t/n/0x00000000_0x80000000")) == [
        "t/n/0x00000000_0x80000000"
    ]
    own = "pulsar/b2:8080/0x00000000_0xffffffff"
    assert subjects(unknown_bundles, holding(healthy(), "b2:8080", own)) == [], "a broker's own has no policies"


def test_a_record_that_waits_for_a_broker_that_is_gone_is_told() -> None:
    record = ServiceUnitStateData(
        state=ServiceUnitState.RELEASING, source_broker="gone:8080", dst_broker="b1:8080", timestamp=NOW_MS - 60_000
    )
    finding = only(stuck_records, replace(healthy(), store=store(records={FIRST: record})))
    assert "Releasing for 60 s and waits for gone:8080" in finding.sentence
