"""Reads the recorded moves, balance and reports of a history, to compare them with its replay."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.lab.inputs import REPORT_COLUMNS, USAGE_COLUMNS, Input, InputKind, InputSpec, usages_of
from pulsar_barycenter.load.moved_back import Whereabouts
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.history import History, NoHistoryError
from pulsar_barycenter.pipeline.storage.files import local_folder
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.replay.advice.document import Observed
from pulsar_barycenter.replay.inputs.recorded import Usages
from pulsar_barycenter.replay.measures import FLAPS

_ALL: Final = 1 << 40
_OF_MOVES: Final = ["at", "bundle", "source", "destination", "ended", "since_last_s", "is_back", "principal"]
_TOPICS_OF_A_TRACE: Final = 4


@dataclass(frozen=True)
class Reality:
    """What really happened in the recorded cluster: its moves, balance and usages. `warnings` are texts that say which
    of these three could not be read, and why.
    """

    observed: Observed | None = None
    usages: Usages | None = None
    warnings: tuple[str, ...] = ()


def reality_of(spec: InputSpec) -> Reality:
    """Return what really happened in the recorded cluster. For an input that is not a data folder, the result has no
    data.

    Raises:
        OSError: the data cannot be read.
    """
    if spec.kind is not InputKind.FOLDER:
        return Reality()
    name = spec.paths[0]
    folder = local_folder(name)
    if folder is None:
        return Reality(warnings=(f"the real moves in {name} are not read, because it is not on this machine",))
    history = History(PipelineLayout.of(Path(folder)), since_ms=spec.since_ms, until_ms=spec.until_ms)
    warnings = []
    moves: list[Mapping[str, Any]] | None = None
    try:
        moves = history.moves(_ALL).select(_OF_MOVES).to_pylist()
    except NoHistoryError as error:
        warnings.append(f"real moves are not known: {error}")
    balance: pa.Table | None = None
    try:
        balance = history.imbalance()
    except NoHistoryError as error:
        warnings.append(f"the real balance is not known: {error}")
    usages = usages_of(history.rows("broker_usage", USAGE_COLUMNS), history.rows("load_reports", REPORT_COLUMNS))
    return Reality(_observed(moves, balance), usages, tuple(warnings))


def _observed(moves: list[Mapping[str, Any]] | None, balance: pa.Table | None) -> Observed | None:
    if moves is None and balance is None:
        return None
    found: dict[str, int | float | None] = {}
    if moves is not None:
        left = [move for move in moves if move["ended"] == "moved"]
        found |= {"moves": len(left), "departures": len(moves) - len(left), "flaps": _flaps(moves)}
    if balance is not None:
        found["splits"] = pc.sum(balance.column("splits")).as_py()
        found["max_over_mean"] = pc.mean(balance.column("usage_ratio")).as_py()
        found["deviation"] = pc.mean(balance.column("usage_deviation")).as_py()
    return Observed(**found)  # type: ignore[arg-type]


def _flaps(moves: Iterable[Mapping[str, Any]]) -> int:
    """Return how often a bundle moved again too soon, or back too soon (see `load.moved_back`). `moves` are ordered by
    time.

    A move that an operator requested does not count. The next move of the same bundle does not count either.
    """
    manual: dict[str, bool] = {}
    seen: dict[str, Whereabouts] = defaultdict(Whereabouts)
    count = 0
    for move in moves:
        bundle, at_ms = seen[move["bundle"]], move["at"].timestamp() * 1000
        is_manual, after_manual = move["principal"] is not None, manual.get(move["bundle"], False)
        manual[move["bundle"]] = is_manual
        since_last = None if move["since_last_s"] is None else move["since_last_s"] * 1000
        # for the first move of a bundle, only its own columns have the earlier owners
        since_left = since_last if move["is_back"] else bundle.since_left(move["destination"], at_ms)
        is_chosen = move["ended"] == "moved" and not is_manual and not after_manual
        count += is_chosen and FLAPS.is_flap(since_last, since_left)
        bundle.moved(move["source"], at_ms)
    return count


def topic_names(spec: InputSpec, found: Input) -> dict[int, str]:
    """Return the names of the generated topics of CSV traces, by the hash of each name; empty for an input that is not
    CSV traces.
    """
    if spec.kind is not InputKind.TRACES:
        return {}
    space = Bundle.parse(found.demand.bundles[0]).namespace
    count = int(spec.shape.get("topics", _TOPICS_OF_A_TRACE))
    topics = [
        TopicName.of("persistent", space, f"{Path(path).stem}-{number}")
        for path in spec.paths
        for number in range(count)
    ]
    return {topic.hash32: str(topic) for topic in topics}
