"""A written snapshot is read back, bit by bit."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.policies import IsolationPolicies, PolicyError
from pulsar_barycenter.load.snapshot.document import (
    PoliciesDocument,
    SnapshotDocument,
    decode_snapshot,
    encode_snapshot,
)
from pulsar_barycenter.load.snapshot.extensible_document import TrafficFigures
from pulsar_barycenter.load.snapshot.load_snapshot import ExtensibleLoad
from pulsar_barycenter.snapshots.parquet_snapshot import read_columns, write_columns
from pulsar_barycenter.snapshots.snapshot_file import read_snapshot_file, write_snapshot
from support.load_cases import Cluster, clusters
from support.snapshot_cases import a_policy, assert_same_snapshot, document_of, documents, read_snapshot


@given(documents())
def test_a_document_is_read_as_it_was_written(document: SnapshotDocument) -> None:
    again = decode_snapshot(encode_snapshot(document))
    assert encode_snapshot(again) == encode_snapshot(document)
    assert (again.memory, again.configuration, again.taken_at) == (
        document.memory,
        document.configuration,
        document.taken_at,
    )
    assert_same_snapshot(again.snapshot(), document.snapshot())


@given(clusters())
def test_a_snapshot_file_gives_the_snapshot_that_the_leader_had(cluster: Cluster) -> None:
    again = decode_snapshot(encode_snapshot(document_of(cluster))).snapshot()
    assert_same_snapshot(again, cluster.snapshot())


@given(document=documents())
def test_columns_are_read_as_they_were_written(
    document: SnapshotDocument, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "columns.parquet"
    write_snapshot(file, document)
    again = read_snapshot_file(file)
    assert_same_snapshot(again.snapshot, document.snapshot())
    assert (again.memory, again.configuration) == (document.memory, document.configuration)


@given(cluster=clusters(), data=st.data())
def test_columns_keep_what_the_extensible_manager_reports(
    cluster: Cluster, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "extensible.parquet"
    plain = replace(cluster.snapshot(), preallocations=None)
    brokers, bundles = len(plain.brokers), len(plain.bundles)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    snapshot = replace(
        plain,
        extensible=ExtensibleLoad(
            weighted_max_ema=rng.random(brokers),
            throughput_ema=rng.random(brokers),
            max_usage=rng.random(brokers),
            updated_at_ms=rng.integers(0, 2**53, brokers),
            has_load=rng.random(brokers) < 0.5,
            live=rng.random(brokers) < 0.5,
            top=rng.integers(-1, 9, bundles),
            owned=rng.random(bundles) < 0.5,
            traffic=data.draw(st.sampled_from(TrafficFigures)),
        ),
    )
    write_columns(file, snapshot)
    assert_same_snapshot(read_columns(file)[0], snapshot)


@pytest.mark.parametrize("name", ["s.json", "s.parquet"])
def test_policies_come_back(tmp_path: Path, name: str) -> None:
    cluster = Cluster().add("b1:8080").add("b2:8080")
    cluster.policies = a_policy("mine", "t/a.*", "b1")
    write_snapshot(tmp_path / name, document_of(cluster))
    again = read_snapshot(tmp_path / name)
    assert_same_snapshot(again, cluster.snapshot())
    assert again.policies.isolation.of_namespace("t/abc") is not None


@given(st.text(alphabet=r"a\QE.*[]", max_size=8))
def test_a_policy_that_came_back_covers_what_it_covered(regex: str) -> None:
    stored = {
        "p": {
            "namespaces": [regex],
            "primary": ["x"],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
    }
    policies, errors = IsolationPolicies.decode(stored)
    if errors:
        return
    document = PoliciesDocument.of(a_policy("p", regex, "x"))
    try:
        again = document.policies().isolation
    except PolicyError as error:
        raise AssertionError(f"{regex!r} became {document.isolation}") from error
    texts = ["", "a", "Q", "E", "\\", ".", r"\Q", r"\E", "aa", "[", "]", regex]
    covered = [[each.of_namespace(text) is not None for text in texts] for each in (policies, again)]
    assert covered[0] == covered[1]


def test_a_document_that_says_only_who_is_there_gets_windows_of_one_report(tmp_path: Path) -> None:
    content = b'{"format": "barycenter-snapshot", "brokers": {"b:1": {"lastStats": {"t/n/0x0_0x1": {"msgRateIn": 3}}}}}'
    (tmp_path / "s.json").write_bytes(re.sub(rb'"lastStats"', b'"bundles": ["t/n/0x0_0x1"], "lastStats"', content))
    snapshot = read_snapshot(tmp_path / "s.json")
    assert snapshot.bundles.short.rate_in.tolist() == [3.0]
    assert snapshot.bundles.short_samples.tolist() == [1]
    assert snapshot.brokers.long.rate_in.tolist() == [3.0]


def test_what_is_no_policy_is_refused_with_its_name(tmp_path: Path) -> None:
    content = b'{"brokers": {}, "policies": {"isolation": {"mine": {"namespaces": ["("], "primary": ["x"]}}}}'
    (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"s\.json: in policies: isolation policy 'mine'"):
        read_snapshot(tmp_path / "s.json")
