"""Boundaries with gaps, copies and caches that differ, and too few bundles."""

from dataclasses import replace

import pytest

from pulsar_barycenter.doctor.checks.namespaces import (
    boundary_copies,
    few_bundles,
    minority,
    stale_bundles,
    stale_policies,
    tiling,
    unreadable_keys,
    untiled,
)
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.picture import NamespaceView
from support.doctor_pictures import BOUNDARIES, SPACE, healthy, only, store, subjects, with_broker

WHOLE = ("0x00000000", "0xffffffff")


@pytest.mark.parametrize(
    ("boundaries", "fault"),
    [
        (BOUNDARIES, ""),
        (WHOLE, ""),
        ((), ""),
        (tuple(reversed(BOUNDARIES)), ""),
        (("0x00000000", "0x40000000"), "the last ends at 0x40000000"),
        (("0x40000000", "0xffffffff"), "the first begins at 0x40000000"),
        (("0x00000000",), "the last ends at 0x00000000"),
        (("0x00000000", "middle", "0xffffffff"), "Invalid hash"),
    ],
)
def test_boundaries_reach_from_the_least_hash_to_the_greatest(boundaries: tuple[str, ...], fault: str) -> None:
    assert fault in untiled(boundaries)
    assert bool(fault) == bool(untiled(boundaries))


def test_boundaries_that_do_not_tile_are_critical_by_the_store_or_by_brokers() -> None:
    torn = replace(healthy(), store=store(boundaries={SPACE: BOUNDARIES[:-1]}))
    assert only(tiling, torn).severity is Severity.CRITICAL
    told = replace(healthy(), store=None, namespaces=(NamespaceView(SPACE, failure="500: they do not cover"),))
    assert "they do not cover" in only(tiling, told).sentence


def test_boundaries_out_of_order_are_a_warning() -> None:
    picture = replace(healthy(), store=store(boundaries={SPACE: tuple(reversed(BOUNDARIES))}))
    assert only(tiling, picture).severity is Severity.WARNING


def test_a_copy_of_the_boundaries_that_differs_is_told() -> None:
    assert (
        "1 bundle, and brokers serve 4"
        in only(boundary_copies, replace(healthy(), store=store(copies={SPACE: WHOLE}))).sentence
    )


def test_a_broker_that_goes_by_other_boundaries_is_told() -> None:
    finding = only(stale_bundles, with_broker(healthy(), "b3:8080", boundaries={SPACE: WHOLE}))
    assert finding.subject == f"b3:8080 {SPACE}"
    assert "it uses 1 bundle, the metadata store has 4" in finding.sentence


def test_a_broker_that_goes_by_other_policies_is_told() -> None:
    picture = with_broker(healthy(), "b3:8080", policies={SPACE: {"deleted": True}})
    assert subjects(stale_policies, picture) == [f"b3:8080 {SPACE}"]
    newer = with_broker(healthy(), "b3:8080", policies={SPACE: {"deleted": False, "of_a_newer_version": 1}})
    assert subjects(stale_policies, newer) == []


def test_of_as_many_the_greater_text_is_the_odd_one() -> None:
    assert minority({}) == []
    assert minority({"b1": "y", "b2": "x"}) == ["b1"]
    assert minority({"b1": "y", "b2": "x", "b3": "y"}) == ["b2"]


def test_fewer_bundles_than_brokers_are_told() -> None:
    picture = replace(healthy(), store=store(boundaries={SPACE: WHOLE}))
    assert only(few_bundles, picture).severity is Severity.INFO
    system = replace(healthy(), store=store(boundaries={"pulsar/system": WHOLE}))
    assert subjects(few_bundles, system) == []


def test_a_key_that_cannot_be_read_is_told() -> None:
    picture = replace(healthy(), store=store(unreadable={"/admin/policies/t/n": "no JSON"}))
    assert subjects(unreadable_keys, picture) == ["/admin/policies/t/n"]
