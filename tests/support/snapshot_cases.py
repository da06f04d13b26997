"""Snapshots as documents for tests, and a comparison of snapshots."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies, IsolationPolicy
from pulsar_barycenter.load.reports.load_report import ResourceUsage
from pulsar_barycenter.load.reports.windows import broker_averages
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.snapshots.snapshot_file import read_snapshot_file
from support.load_cases import Cluster, clusters, histories

odd_numbers = st.sampled_from([float("nan"), float("inf"), float("-inf")])


def read_snapshot(path: Path, at_ms: int | None = None) -> LoadSnapshot:
    """Return the snapshot in a file or folder; see `read_snapshot_file`."""
    return read_snapshot_file(path, at_ms).snapshot


def document_of(cluster: Cluster, **fields: Any) -> SnapshotDocument:
    """Return the document that a leader of this cluster writes."""
    averages = {name: broker_averages(report.last_stats, cluster.data) for name, report in cluster.reports.items()}
    return SnapshotDocument(
        brokers=cluster.reports,
        bundle_data=cluster.data,
        broker_data=averages,
        preallocated=cluster.preallocated,
        recently_unloaded=dict.fromkeys(sorted(cluster.recently_unloaded), 7),
        policies=PoliciesDocument.of(cluster.policies),
        **fields,
    )


@st.composite
def documents(draw: st.DrawFn) -> SnapshotDocument:
    """Draw a document with everything that it can contain, including values that are not numbers."""
    cluster = draw(clusters())
    for name in cluster.reports if draw(st.booleans()) else ():
        odd = ResourceUsage(draw(odd_numbers), draw(odd_numbers | st.just(100.0)))
        cluster.reports[name] = msgspec.structs.replace(cluster.reports[name], bandwidth_out=odd)
    memory = MemoryDocument(
        usage=draw(histories), low_hits=draw(st.dictionaries(st.just("b1:8080"), st.integers(0, 9)))
    )
    return document_of(
        cluster,
        taken_at=draw(st.integers(0, 2**53)),
        memory=memory,
        configuration=draw(
            st.dictionaries(st.sampled_from(["loadBalancerEnabled"]), st.sampled_from(["true", "false"]))
        ),
    )


def assert_same_snapshot(one: LoadSnapshot, other: LoadSnapshot) -> None:
    """Compare every column bit by bit, and everything else by value."""
    _assert_same(one, other, "snapshot")


def _assert_same(one: Any, other: Any, place: str) -> None:
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, place
        np.testing.assert_array_equal(one, other, err_msg=place)
    elif isinstance(one, IsolationPolicies):
        assert [_texts(each) for each in one.policies] == [_texts(each) for each in other.policies], place
    elif dataclasses.is_dataclass(one) and not isinstance(one, type):
        assert type(one) is type(other), place
        for field in dataclasses.fields(one):
            if field.name != "_found":
                _assert_same(getattr(one, field.name), getattr(other, field.name), f"{place}.{field.name}")
    elif isinstance(one, msgspec.Struct):
        assert type(one) is type(other), place
        for name in one.__struct_fields__:
            _assert_same(getattr(one, name), getattr(other, name), f"{place}.{name}")
    elif isinstance(one, Mapping):
        assert set(one) == set(other), place
        for key in one:
            _assert_same(one[key], other[key], f"{place}[{key}]")
    elif isinstance(one, list | tuple):
        assert list(one) == list(other), place
    else:
        assert one == other, place


def _texts(policy: IsolationPolicy) -> tuple[Any, ...]:
    return (policy.name, policy.namespaces, policy.primary, policy.secondary, policy.min_limit, policy.unload_scope)


def a_policy(name: str, namespaces: str, primary: str) -> ClusterPolicies:
    """Return policies with one isolation policy, a failure domain and an anti-affinity group."""
    stored = {
        name: {
            "namespaces": [namespaces],
            "primary": [primary],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
    }
    isolation, errors = IsolationPolicies.decode(stored)
    assert not errors
    return ClusterPolicies(isolation, {"b1:8080": "rack-1"}, {"t/a": "group"})
