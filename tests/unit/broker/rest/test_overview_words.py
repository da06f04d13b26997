"""The texts at the top of the picture of a cluster: its problems."""

from pulsar_barycenter.dashboard.overview import (
    BrokerShare,
    PipelineHealth,
    complaints_of,
)

NOW_MS = 1_800_000_000_000
SILENT_MS = 16 * 60_000


def share(broker: str, reported_at: int) -> BrokerShare:
    return BrokerShare(
        broker=broker, usage={}, bundles=0, topics=0, msg_rate=0.0, msg_throughput=0.0, reported_at=reported_at
    )


def test_a_healthy_cluster_has_no_complaints() -> None:
    shares = [share("b1:1", NOW_MS), share("b2:1", NOW_MS - SILENT_MS)]
    assert complaints_of(shares, None, NOW_MS, SILENT_MS) == ()
    assert complaints_of(shares, PipelineHealth(in_use=True, lag_s=3), NOW_MS, SILENT_MS) == ()


def test_silent_brokers_and_a_late_pipeline_are_named_with_their_figures() -> None:
    shares = [share("b1:1", 0), share("b2:1", NOW_MS - 20 * 60_000), share("b3:1", NOW_MS)]
    assert complaints_of(shares, PipelineHealth(in_use=False, lag_s=95), NOW_MS, SILENT_MS) == (
        "b1:1 has not reported its load yet.",
        "b2:1 last reported its load 20 min ago; a report is due every 16 min.",
        "The pipeline is 95 s late, so the leader decides by windows of its own.",
    )


def test_a_silent_pipeline_is_told_while_nothing_waits_for_it() -> None:
    pipeline = PipelineHealth(in_use=True, lag_s=0, silent_s=340)
    told = ("The pipeline has not looked for load reports for 340 s: it was stopped, was killed or hangs.",)
    assert complaints_of([share("b1:1", NOW_MS)], pipeline, NOW_MS, SILENT_MS) == told
