"""Workload files of the OpenMessaging benchmark: what they request, and which are refused."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.inputs.workload_files import demand_of_workload, workload_of

FILE = b"""# ten topics
name: 10 topics / 4 partitions / 1kb
topics: 10
partitionsPerTopic: 4
keyDistributor: "NO_KEY"
messageSize: 2048
payloadFile: "payload/payload-1Kb.data"
subscriptionsPerTopic: 2
producersPerTopic: 3
consumerPerSubscription: 5
producerRate: 50000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
"""


def test_a_workload_is_shared_by_its_partitions() -> None:
    demand = demand_of_workload(workload_of("w.yaml", FILE), brokers=3, bundles=16)
    assert (demand.steps, demand.sources) == (15, 40)
    np.testing.assert_allclose(demand.rate_in.sum(axis=1), 50_000)
    np.testing.assert_allclose(demand.rate_out, 2 * demand.rate_in)
    np.testing.assert_allclose(demand.throughput_in, 2048 * demand.rate_in)
    assert set(demand.sessions.tolist()) == {3 + 2 * 5}
    for place, where in zip(demand.bundle_of.tolist(), demand.hashes.tolist(), strict=True):
        assert Bundle.parse(demand.bundles[place]).range.contains(where)
    assert len(set(demand.hashes.tolist())) == 40


def test_the_seed_draws_names_and_owners() -> None:
    one, same, other = (demand_of_workload(workload_of("w", FILE), seed=seed) for seed in (1, 1, 2))
    assert (one.hashes == same.hashes).all()
    assert one.owners == same.owners
    assert (one.hashes != other.hashes).any()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"topics: 10", "missing required field `producerRate`"),
        (b"topics: 0\nproducerRate: 1", "Expected `int` >= 1"),
        (b"topics: 1\nproducerRate: 0", "producerRate 0 means the maximum that brokers can take"),
        (b"topics: 100000\npartitionsPerTopic: 100\nproducerRate: 1", "more than 1,000,000 partitions"),
        (b"- a\n- b", "is not a workload of the OpenMessaging benchmark"),
        (b"topics: [", "is not a workload of the OpenMessaging benchmark"),
    ],
)
def test_what_is_no_workload_is_refused(content: bytes, text: str) -> None:
    with pytest.raises(ReplayInputError, match=text):
        workload_of("w.yaml", content)


def test_a_workload_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_bytes(FILE)
    words = ["replay", "--input", str(tmp_path / "w.yaml"), "--shape", "brokers=4", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*words, "--strategy", "AvgShedder"])
    assert done.exit_code == 0, done.output
    assert "64 bundles on 4 brokers, 0.25 h in 15 steps" in done.stderr
    refused = CliRunner().invoke(main, [*words, "--shape", "topics=4"])
    assert refused.exit_code == 1
    assert "a workload file has no such key; give one of brokers, bundles, cores" in refused.stderr.replace("\n", " ")
