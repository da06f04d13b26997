"""Computes the results of a demo from its record."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pulsar_barycenter.demo.gaps import interruptions, seconds_without_receipt
from pulsar_barycenter.demo.log_readers import PipelineBatches
from pulsar_barycenter.demo.moves import AGAIN_WITHIN_S, follow_bundles
from pulsar_barycenter.demo.plan import ClientResult
from pulsar_barycenter.demo.record import Record, mean_imbalance

_LAST_PART = 0.2


def summarise(
    record: Record,
    result: ClientResult,
    *,
    affected_topics: Sequence[str],
    pipeline: PipelineBatches,
    ended_at_s: float,
) -> dict[str, Any]:
    """Return the results of a run, which become the file `summary.json`.

    `imbalance_before` is the mean of max/mean over the brokers from the time when the last broker joined to the first
    unload after it; `imbalance_after` is the mean over the last fifth of the run. `recovery_seconds` is the time from
    the kill until all of `affected_topics` (the topics of the killed broker) had a receipt; None if a topic was not
    served again, or there are no such topics. `failovers` counts the bundles that were assigned again because of the
    kill.

    `moves` counts the changes of owner. `moved_back` counts the moves that a strategy chose (not failovers) and that
    went to a former owner, or came within a minute of the bundle's previous move. Of these moves, `bundles_moved_back`
    counts the different bundles, and `moved_back_after_split` those that placed a part of a split bundle for the first
    time.

    `imbalance_mean` is the mean of max/mean from the time when the last broker joined to the end. `interruptions`
    counts the times in which topics got no receipts, see `gaps`; `topic_seconds_without_receipt` is the sum of all gaps
    of all topics, in seconds. `pipeline_batches_failed` counts the pipeline's failed attempts to fold a batch.
    """
    moves = follow_bundles(record, ended_at_s)[1]
    moved_back = [move for move in moves if move.moved_back]
    topics = result.topics
    gaps = interruptions(topics)
    recoveries = [result.recovered.get(topic) for topic in affected_topics]
    recovered = [seconds for seconds in recoveries if seconds is not None]
    joined_s = max(
        (event.at_s for event in record.events if event.kind == "broker joined"), default=record.started_at_s
    )
    unloads = (event.at_s for event in record.events if event.kind == "unload" and event.at_s >= joined_s)
    balancing_s = min(unloads, default=ended_at_s)
    return {
        "messages_produced": sum(topic.produced for topic in topics),
        "messages_consumed": sum(topic.consumed for topic in topics),
        "messages_lost": sum(topic.lost for topic in topics),
        "messages_duplicated": sum(topic.duplicated for topic in topics),
        "out_of_order": sum(topic.out_of_order for topic in topics),
        "messages_refused": sum(topic.failed for topic in topics),
        "assignments": record.count("assignment"),
        "unloads": record.count("unload"),
        "splits": record.count("split"),
        "moves": len(moves),
        "moved_back": len(moved_back),
        "bundles_moved_back": len({move.bundle for move in moved_back}),
        "moved_back_after_split": sum(move.after_split for move in moved_back),
        "killed_broker": record.killed_broker,
        "failovers": _failovers(record),
        "topics_affected": len(recoveries),
        "recovery_seconds": max(recovered, default=None) if len(recovered) == len(recoveries) else None,
        "imbalance_before": mean_imbalance(record.samples, joined_s, max(balancing_s, joined_s + 3)),
        "imbalance_after": mean_imbalance(
            record.samples, ended_at_s - _LAST_PART * (ended_at_s - record.started_at_s), ended_at_s
        ),
        "imbalance_mean": mean_imbalance(record.samples, joined_s, ended_at_s),
        "pipeline_batches": len(pipeline.lags_s),
        "pipeline_lag_seconds_p50": _percentile(pipeline.lags_s, 50),
        "pipeline_lag_seconds_p99": _percentile(pipeline.lags_s, 99),
        "pipeline_batches_failed": len(pipeline.failures),
        "pipeline_last_failure": pipeline.failures[-1] if pipeline.failures else None,
        "interruptions": len(gaps),
        "topics_of_longest_gap": len(gaps[0].topics) if gaps else 0,
        "topic_seconds_without_receipt": round(seconds_without_receipt(topics), 3),
        "longest_gap_seconds": max((topic.longest_gap_s for topic in topics), default=0.0),
        "duration_seconds": ended_at_s - record.started_at_s,
    }


def verdict(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the results in the summary of a run, each as a heading and a sentence."""
    said = [
        (
            "messages",
            f"{summary['messages_produced']:,} produced, {summary['messages_consumed']:,} consumed, "
            f"{summary['messages_lost']:,} lost, {summary['messages_duplicated']:,} delivered again, "
            f"{summary['out_of_order']:,} out of order",
        ),
        (
            "balance",
            f"busiest/mean {_shown(summary['imbalance_before'])} before, {_shown(summary['imbalance_after'])} after; "
            f"{counted(summary['assignments'], 'assignment')}, {counted(summary['unloads'], 'unload')}, "
            f"{counted(summary['splits'], 'split')}",
        ),
        ("moved back", _moved_back(summary)),
    ]
    if summary["killed_broker"] is not None:
        bundles = counted(summary["failovers"], "bundle")
        served = summary["recovery_seconds"]
        if not summary["topics_affected"]:
            after = "no topic was served there"
        elif served is None:
            after = "not all topics were served again"
        else:
            after = f"all topics served after {served:.2f} s"
        said.append(("fail-over", f"{bundles}, {after}"))
    said.append(("noticed", _noticed(summary)))
    batches = counted(summary["pipeline_batches"], "batch", "batches")
    said.append(("pipeline", f"{batches}, lag p99 {_shown(summary['pipeline_lag_seconds_p99'], ' s')}"))
    if summary["pipeline_batches_failed"]:
        failed = counted(summary["pipeline_batches_failed"], "attempt")
        said.append(("", f"{failed} to fold a batch failed, the last one by {summary['pipeline_last_failure']}"))
    return said


def _moved_back(summary: dict[str, Any]) -> str:
    if not summary["moves"]:
        return "no bundle moved"
    moves = counted(summary["moves"], "move")
    if not summary["moved_back"]:
        return f"none of {moves} went to a former owner or followed the last move within {AGAIN_WITHIN_S:.0f} s"
    bundles, parts = counted(summary["bundles_moved_back"], "bundle"), summary["moved_back_after_split"]
    return (
        f"{summary['moved_back']:,} of {moves} ({bundles}) went to a former owner "
        f"or followed the last move within {AGAIN_WITHIN_S:.0f} s"
        f"{f'; {parts:,} of them assigned parts of a split bundle' if parts else ''}"
    )


def _noticed(summary: dict[str, Any]) -> str:
    if summary.get("interrupted") and not summary["interruptions"]:
        return "not known: clients report it at the end, and the run was interrupted"
    if not summary["interruptions"]:
        return "no topic waited for a receipt for 0.25 s or longer"
    times = counted(summary["interruptions"], "time")
    longest = f"{summary['longest_gap_seconds']:.2f} s ({counted(summary['topics_of_longest_gap'], 'topic')})"
    return f"{times} without receipts for 0.25 s or longer, the longest {longest}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, in the singular for one."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _shown(value: float | None, unit: str = "") -> str:
    return "–" if value is None else f"{value:.2f}{unit}"


def _failovers(record: Record) -> int:
    """Return how many bundles of the killed broker were assigned to another broker after the kill; 0 if no broker was
    killed.
    """
    if record.killed_at_s is None:
        return 0
    later = (event for event in record.events if event.kind == "assignment" and event.at_s >= record.killed_at_s)
    return len({event.bundle for event in later} & record.killed_bundles)


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None
