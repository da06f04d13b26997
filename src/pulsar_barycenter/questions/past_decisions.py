"""Reads the decisions up to a time, from a running cluster, a folder of logs, one log, or the pipeline's tables."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.cluster_logs.decision_pages import DecisionPage, DecisionQuestion, merged_pages, read_page
from pulsar_barycenter.cluster_logs.record_pages import parse_cursor
from pulsar_barycenter.load.reasons import Reason
from pulsar_barycenter.observer.running_cluster import decision_page
from pulsar_barycenter.questions.past_state import Subject
from pulsar_barycenter.snapshots.table_folder import tables_below

_MAX_PAGES: Final = 256
_OF_TABLES: Final = 10_000
"""The number of last decisions before the time that are read from the tables."""

Ask: TypeAlias = Callable[[DecisionQuestion], DecisionPage]


def known_then(subject: Subject, at_ms: int, ask: Ask) -> tuple[list[DecisionRecord], DecisionPage]:
    """Return the decisions that explain the state of `subject` at the time `at_ms` (epoch ms), among them the last
    result of shedding. `ask` reads a page of decisions. The second result is a page that has the time range of all
    known decisions, and the brokers that did not answer.
    """
    of_it, page = _whole(ask, subject.question(at_ms))
    rounds, _ = _whole(ask, DecisionQuestion(kind="shed", until_ms=at_ms, limit=1))
    return [*of_it, *rounds], page


def of_cluster(new_client: NewClient, url: str) -> Ask:
    """Return a function that reads pages of decisions of a running cluster. It sends its requests to the broker at
    `url`, which queries all other brokers.
    """
    return lambda question: asyncio.run(decision_page(new_client, url, question))


def of_files(data: Path) -> Ask:
    """Return a function that reads pages of decisions from files. `data` is a data folder, a folder of decision logs,
    or one log; the pipeline's tables in a data folder are read, too. The errors below are raised by the returned
    function.

    Raises:
        OSError: a table cannot be read.
    """
    folder = data / "decisions" if (data / "decisions").is_dir() else data
    of_tables: dict[int, list[DecisionRecord]] = {}

    def ask(question: DecisionQuestion) -> DecisionPage:
        if question.until_ms not in of_tables:
            of_tables[question.until_ms] = _of_tables(data, question.until_ms)
        page = read_page(folder, question)
        again = read_page(None, question, of_tables[question.until_ms])
        return merged_pages([page, again], question.limit)

    return ask


def _whole(ask: Ask, question: DecisionQuestion) -> tuple[list[DecisionRecord], DecisionPage]:
    """Read page after page, the newest first, until they have the number of decisions that `question` asks for, or no
    decision is left, or _MAX_PAGES pages were read. Return all decisions that were read, oldest first, and the last
    page.
    """
    found: list[DecisionRecord] = []
    for _ in range(_MAX_PAGES):
        page = ask(question)
        found = page.decisions + found
        if not page.next or len(found) >= question.limit:
            break
        before = parse_cursor(page.next)
        if question.before is not None and before >= question.before:
            break
        question = replace(question, before=before)
    return found, page


def _of_tables(data: Path, until_ms: int) -> list[DecisionRecord]:
    tables = tables_below(data) if data.is_dir() else None
    if tables is None and not (data / "tables" / "decisions").is_dir():
        return []
    # brings Arrow, which folders without tables do without
    from pulsar_barycenter.pipeline.history import History, NoHistoryError
    from pulsar_barycenter.pipeline.storage.files import LocalStorage
    from pulsar_barycenter.pipeline.tables.schemas import DECISIONS

    root = tables.parent if tables is not None and tables.name == "tables" else data
    columns = [name for name in DecisionRecord.__struct_fields__ if name in DECISIONS.names and name != "reason"]
    try:
        # the tables' end is exclusive
        rows = History(LocalStorage(root), until_ms=until_ms + 1).decisions(_OF_TABLES, columns=[*columns, "reason"])
    except NoHistoryError:
        return []
    return [_of_row(row) for row in rows.to_pylist()]


def _of_row(row: Mapping[str, object]) -> DecisionRecord:
    at = row["at"]
    assert isinstance(at, datetime)
    fields = {name: value for name, value in row.items() if value is not None}
    fields["at"] = round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
    fields["reason"] = msgspec.json.decode(str(row["reason"]), type=Reason)
    return msgspec.convert(fields, DecisionRecord)
