"""The Prometheus metrics of a pipeline match its status."""

import socket
import urllib.request

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pulsar_barycenter.pipeline.running.metrics import StatusCollector, serve_metrics
from pulsar_barycenter.pipeline.running.phases import PhaseTimes
from pulsar_barycenter.pipeline.running.status import STATES, PipelineStatus
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue

COUNT = st.integers(0, 2**40)
SECONDS = st.none() | st.floats(0, 1e6)
STATUSES = st.builds(
    PipelineStatus,
    state=st.sampled_from(STATES),
    pid=COUNT,
    updated_at=COUNT,
    batch_seconds_p50=SECONDS,
    batch_seconds_p99=SECONDS,
    lag_ms_p50=st.none() | COUNT,
    lag_ms_p99=st.none() | COUNT,
    as_of=COUNT,
    looked_at=COUNT,
    phases=st.dictionaries(
        st.sampled_from(["addBatch", "latestOffset", "triggerExecution"]),
        st.builds(PhaseTimes, last_ms=COUNT, ms_p50=COUNT, ms_p99=COUNT, total_ms=COUNT),
    ),
    refold=st.none() | st.builds(RefoldDue, since=COUNT, until=COUNT, reports=COUNT, decisions=COUNT),
    **dict.fromkeys(
        [
            *("batches", "failures", "reports", "samples", "bundles", "duplicate_reports", "late_reports"),
            *("held_reports", "corrupt_reports", "decisions", "corrupt_decisions", "overdue_reports"),
            "overdue_decisions",
        ],
        COUNT,
    ),
)


def told(text: str) -> dict[tuple[str, str], float]:
    """(name without the prefix, the values of its labels or "") to the value."""
    return {
        (sample.name.removeprefix("barycenter_pipeline_"), " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(STATUSES)
def test_every_figure_of_the_status_is_told_and_none_that_is_not_known(status: PipelineStatus) -> None:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: status))
    figures = told(generate_latest(registry).decode())

    assert {state for state in STATES if figures.pop(("state", state))} == {status.state}
    expected: dict[tuple[str, str], float] = {}
    for name, value in msgspec.structs.asdict(status).items():
        if name in ("state", "pid", "updated_at", "batch_id", "error", "lag_ms") or value is None:
            continue
        if name == "refold":
            expected |= {
                ("refold_timestamp_seconds", bound): getattr(value, bound) / 1000 for bound in ("since", "until")
            }
        elif name == "phases":
            for phase, times in value.items():
                expected["trigger_phase_seconds_total", phase] = times.total_ms / 1000
                expected["trigger_phase_recent_seconds", f"{phase} 0.5"] = times.ms_p50 / 1000
                expected["trigger_phase_recent_seconds", f"{phase} 0.99"] = times.ms_p99 / 1000
        elif name in ("held_reports", "bundles"):
            expected[name, ""] = value
        elif name in ("as_of", "looked_at"):
            shown = "newest_report" if name == "as_of" else "last_look"
            expected |= {(f"{shown}_timestamp_seconds", ""): value / 1000} if value else {}
        elif "_p" in name:
            base, quantile = name.rsplit("_p", 1)
            in_ms = base == "lag_ms"
            expected["lag_seconds" if in_ms else base, f"0.{quantile.rstrip('0')}"] = value / 1000 if in_ms else value
        else:
            expected[f"{name}_total", ""] = value
    assert figures == expected


def test_it_answers_while_the_pipeline_runs_and_lets_go_of_the_port_afterwards() -> None:
    status = PipelineStatus(state="running", pid=1, updated_at=2, batches=3)
    with serve_metrics(lambda: status, 0) as port:
        for expected in (3, 4):
            status = msgspec.structs.replace(status, batches=expected)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                assert told(answer.read().decode())["batches_total", ""] == expected
        with (
            pytest.raises(OSError, match=f"127.0.0.1:{port}.*another --metrics-port"),
            serve_metrics(lambda: status, port),
        ):
            pass
    with serve_metrics(lambda: status, port) as again:
        assert again == port


def test_a_client_that_says_nothing_is_closed() -> None:
    status = PipelineStatus(state="running", pid=1, updated_at=2)
    with serve_metrics(lambda: status, 0, silence_s=0.1) as port, socket.create_connection(("127.0.0.1", port)) as idle:
        idle.settimeout(30)
        assert idle.recv(1) == b""
