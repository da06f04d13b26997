"""Formats the log events of the pipeline's job as lines for a terminal."""

from collections.abc import Callable, MutableMapping
from typing import Any, Final

from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.terminal.tables import printable

Event = MutableMapping[str, Any]


def person_renderer(_logger: object, _method: str, event: Event) -> str:
    """Return the line of text for an event of the pipeline's log; an event for which there is no sentence becomes the
    list of its fields.

    Control characters in texts from files and stores are replaced, so that they cannot act on the terminal.
    """
    name = str(event.pop("event"))
    at = str(event.pop("timestamp", ""))[11:19]
    level = str(event.pop("level", "info"))
    sentence = _SENTENCES[name](event) if name in _SENTENCES else _fields(name, event)
    text = " ".join(map(printable, sentence.splitlines()))
    return f"{at}  {text}" if level == "info" else f"{at}  {level.upper()}: {text}"


def _fields(name: str, event: Event) -> str:
    return " ".join([name.replace("_", " "), *(f"{key}={value}" for key, value in event.items())])


def _batch(event: Event) -> str:
    parts = [
        f"batch {event['batch_id']}: {count_of(event['reports'], 'report')}, {count_of(event['samples'], 'sample')}",
        f"{count_of(event['bundles'], 'bundle')} in {event['seconds']:.2f} s",
    ]
    if event.get("lag_seconds") is not None:
        parts.append(f"lag {event['lag_seconds']:.2f} s")
    for field, words in (
        ("late", "late"),
        ("overdue", "overdue"),
        ("held", "waiting for an earlier report"),
        ("duplicates", "duplicates"),
        ("decisions", "decisions"),
        ("overdue_decisions", "decisions overdue"),
        ("corrupt", "refused"),
    ):
        if event.get(field):
            parts.append(f"{event[field]:,} {words}")
    return ", ".join(parts)


def _fall_short(event: Event) -> str:
    counts = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in event.items())
    return f"the tables lack a part of the files: {counts}; `barycenter pipeline status` shows details"


_SENTENCES: Final[dict[str, Callable[[Event], str]]] = {
    "pipeline_batch": _batch,
    "pipeline_started": lambda event: f"reading the reports of {event['data']}, from batch {event['first_batch']} on",
    "pipeline_metrics_served": lambda event: f"serving metrics for Prometheus at {event['url']}",
    "pipeline_backlog": lambda event: (
        f"folding a backlog of {count_of(event['files'], 'file')} of {event['data']} in order"
    ),
    "pipeline_tables_fall_short": _fall_short,
    "pipeline_stopped": lambda event: f"stopped in order after {count_of(event['batches'], 'batch')}",
    "pipeline_cannot_run": lambda event: str(event["reason"]),
    "pipeline_batch_failed": lambda event: f"{event['reason']}; trying again in {event['retry_in_s']:g} s",
    "load_report_refused": lambda event: f"cannot read {event['file']}; copied with the reason to {event['kept_in']}",
}
