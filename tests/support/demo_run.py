"""A synthetic run of a demo with everything that its report shows: moves back, a split, a fail-over, unusual names."""

from pathlib import Path

import msgspec

from pulsar_barycenter.demo.contenders import OURS, PULSARS_DEFAULT
from pulsar_barycenter.demo.log_readers import PipelineBatches
from pulsar_barycenter.demo.plan import ClientResult, TopicResult
from pulsar_barycenter.demo.record import Event, LoadSample, Record
from pulsar_barycenter.demo.report.comparison import SeenRun
from pulsar_barycenter.demo.summary import summarise

BROKERS = ("127.0.0.1:18080", "127.0.0.1:18081", "127.0.0.1:18082")
ODD_NAME = "</script><script>alert(1)</script><b>&"
AFFECTED = "persistent://public/demo/orders"
STARTED_AT_S = 1_700_000_000.0
_A, _B, _C = BROKERS
_LOW, _HIGH = "public/demo/0x00000000_0x80000000", "public/demo/0x80000000_0xffffffff"
_LOWER, _UPPER = "public/demo/0x00000000_0x40000000", "public/demo/0x40000000_0x80000000"
_REASON = (
    "the heaviest left [Test]; because {}: its usage is high (usage 90 % >= limit 35 %, more 1 >= 0) [Test]; "
    "settings: x"
)


def flapping_run() -> tuple[Record, ClientResult]:
    """Sixty seconds; the upper half goes A, C, A, B within 34 s; the lower half is split; C is killed at 40 s."""
    record = Record(STARTED_AT_S, killed_at_s=STARTED_AT_S + 40, killed_broker=_C, killed_bundles={_LOWER})
    for second in range(61):
        for number, broker in enumerate(BROKERS):
            if second >= 8 * (number > 0) and not (broker == _C and second >= 40):
                rate = 500.0 + 40 * number + 25 * (second % 5)
                record.samples.append(LoadSample(STARTED_AT_S + second, broker, rate, rate * 1024, 1, 0.3))
    happened = [
        (-2.0, "assignment", _LOW, None, _A),
        (-1.5, "assignment", _HIGH, None, _A),
        (0.0, "broker joined", "", None, _A),
        (8.0, "broker joined", "", None, _B),
        (8.0, "broker joined", "", None, _C),
        (12.0, "unload", _HIGH, _A, _C),
        (20.0, "split", _LOW, _A, None),
        (24.0, "unload", _LOWER, _A, _C),
        (30.0, "unload", _HIGH, _C, _A),
        (40.0, "broker killed", "", _C, None),
        (40.5, "assignment", _LOWER, None, _B),
        (46.0, "unload", _HIGH, _A, _B),
    ]
    record.events = [
        Event(STARTED_AT_S + at_s, kind, bundle, source, destination, _REASON.format(source) if source else "<none>")
        for at_s, kind, bundle, source, destination in happened
    ]
    gap, later = (STARTED_AT_S + 40, STARTED_AT_S + 40.9), (STARTED_AT_S + 50, STARTED_AT_S + 50.3)
    topics = [
        TopicResult(AFFECTED, 1200, 1200, 0, 1, 0, 0, 0.9, [gap]),
        TopicResult(f"persistent://public/demo/{ODD_NAME}", 10, 10, 0, 0, 0, 0, 0.3, [later]),
    ]
    return record, ClientResult(topics=topics, recovered={AFFECTED: 0.9})


def calm_run() -> tuple[Record, ClientResult]:
    """The same minute, in which only the kill moved bundles, and no client waited."""
    record, result = flapping_run()
    record.events = [event for event in record.events if event.kind not in ("unload", "split")]
    topics = [msgspec.structs.replace(topic, gaps=[], longest_gap_s=0.1) for topic in result.topics]
    return record, ClientResult(topics=topics, recovered=result.recovered)


def compared_runs(out: Path) -> list[SeenRun]:
    """The flapping run as ours, the calm one as Pulsar's default, with reports below `out`."""
    runs = []
    for contender, (record, result) in ((OURS, flapping_run()), (PULSARS_DEFAULT, calm_run())):
        summary = summarise(
            record, result, affected_topics=[AFFECTED], pipeline=PipelineBatches([0.5]), ended_at_s=STARTED_AT_S + 60
        )
        summary |= {"brokers": 3, "load": "a test"}
        runs.append(SeenRun(contender, record, result.topics, summary, out / contender.name / "report.html"))
    return runs


UPPER_PART = _UPPER
"""The part of the split bundle that no event names."""
