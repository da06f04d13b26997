"""Compares the answers of two clusters to the same lines of `pulsar-admin`, and writes the table of the comparison.

A file of lines has one line of the tool each; comments begin with `#`. A line that begins with `~` is compared by the
fields of its answer and their kinds, since their values are figures; one with `?` only by how it ended. `@produce TOPIC
N` sends N messages, and has `{ledger}` stand for the ledger of the first from there on.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from support.admin_tool import AdminTool, Outcome
from support.http_record import HttpRecord

EQUAL: Final = "="
SHAPE: Final = "~"
ENDING: Final = "?"
BEGIN: Final = "<!-- what pulsar-admin sees: begin -->\n"
END: Final = "<!-- what pulsar-admin sees: end -->\n"

_PRODUCE: Final = "@produce"
_LATE_S: Final = 2.0
"""How long an answer is waited for that a verb did not wait for."""
_BUSY: Final = "due to ongoing message expiration not finished"
"""What Apache Pulsar answers to an expiry while the one before goes on."""
_BUSY_PAUSES_S: Final = (0.2, 1.0, 3.0)
_SET: Final = re.compile(r"\[([^\[\]{}]*)\]")
_VARYING: Final = (
    (re.compile(r"\b1[5-9]\d{11}\b"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,]*Z?"), "<time>"),
    (re.compile(r"(?<![\w.-])-?\d{1,9}:-?\d{1,9}(:-?\d+)*\b"), "<position>"),
    (re.compile(r'("(?:ledgerId|partitionIndex|version|timestamp)" : )-?\d+'), r"\1<number>"),
)

Produce = Callable[[str, int], int]
"""Sends that many messages to a topic, and returns the ledger of the first."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the tool, and how its answers are compared."""

    text: str
    level: str = EQUAL

    @property
    def verb(self) -> str:
        """Group and name, as in `topics stats`."""
        return " ".join(self.text.split()[:2])


@dataclass(frozen=True, slots=True)
class Played:
    """A line with its outcome at one cluster, and the statuses of the broker's answers."""

    line: Line
    outcome: Outcome
    statuses: tuple[int, ...]

    @property
    def ending(self) -> tuple[bool, int | None]:
        """Whether it succeeded, and the status of the last answer where it did not."""
        succeeded = self.outcome.succeeded
        return succeeded, None if succeeded or not self.statuses else self.statuses[-1]

    def shown(self) -> str:
        """Say briefly what came of it."""
        said = self.outcome.printed if self.outcome.succeeded else self.outcome.reason or self.outcome.errors
        status = "succeeded" if self.outcome.succeeded else f"failed {self.statuses[-1] if self.statuses else ''}"
        return f"{status} {' '.join(said.split())[:300]}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why verbs differ: patterns of verbs, as in `functions *`."""

    verbs: tuple[str, ...]
    because: str

    def explains(self, verb: str) -> bool:
        return any(fnmatchcase(verb, pattern) for pattern in self.verbs)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the tool of one version sees of two clusters."""

    version: str
    verbs: Sequence[str]
    """All that the tool has, in the order of the alphabet."""
    differing: Mapping[str, Sequence[str]]
    """Verbs whose outcome differs, and in what."""
    unheard: Sequence[str]
    """Verbs that asked neither cluster."""

    @property
    def same(self) -> int:
        """How many verbs asked and have the same outcome."""
        return len(self.verbs) - len(self.differing) - len(self.unheard)


def read_lines(file: Path) -> list[Line]:
    """Return the lines of a file, those that are set up included."""
    found = []
    for text in file.read_text().splitlines():
        level = text[:1] if text[:1] in (SHAPE, ENDING) else EQUAL
        if text and not text.startswith("#"):
            found.append(Line(text.removeprefix(level).strip(), level))
    return found


def read_reasons(file: Path) -> list[Reason]:
    """Return the reasons of a file, a table `reason` each."""
    rows = tomllib.loads(file.read_text())["reason"]
    return [Reason(tuple(row["verbs"]), row["because"]) for row in rows]


def play(
    lines: Iterable[Line], tool: AdminTool, record: HttpRecord, places: Mapping[str, str], produce: Produce
) -> list[Played]:
    """Run the lines that the tool has, in their order.

    `places` stand for names of the cluster, in lines and answers.
    """
    known, names, found = set(tool.verbs()), dict(places), []
    for line in lines:
        if line.text.startswith(_PRODUCE):
            _, topic, count = line.text.split()
            names["{ledger}"] = str(produce(topic, int(count)))
        elif tuple(line.text.split()[:2]) in known:
            outcome, statuses = _run(tool, record, [_with(names, word) for word in shlex.split(line.text)])
            told = (_without(places, text) for text in (outcome.printed, outcome.errors))
            found.append(Played(line, Outcome(outcome.succeeded, *told), statuses))
    return found


def _run(tool: AdminTool, record: HttpRecord, words: Sequence[str]) -> tuple[Outcome, tuple[int, ...]]:
    """Run a line; return what came of it and the statuses of the answers. A cluster that is busy is asked again."""
    for pause_s in (*_BUSY_PAUSES_S, 0.0):
        record.taken()
        outcome = tool.run(words)
        statuses = tuple(record.taken(within_s=_LATE_S))
        if outcome.succeeded or _BUSY not in outcome.errors:
            break
        threading.Event().wait(pause_s)
    return outcome, statuses


def compare(version: str, verbs: Iterable[str], ours: Sequence[Played], theirs: Sequence[Played]) -> Seen:
    """Return what the tool of a version, which has these verbs, sees."""
    differing: dict[str, list[str]] = {}
    heard = set()
    for one, other in zip(ours, theirs, strict=True):
        verb = one.line.verb
        if one.statuses or other.statuses:
            heard.add(verb)
        if not agree(one, other):
            told = f"$ {one.line.text}\n  Apache Pulsar: {other.shown()}\n  Barycenter:    {one.shown()}"
            differing.setdefault(verb, []).append(told)
    known = sorted(verbs)
    return Seen(version, known, differing, [verb for verb in known if verb not in heard])


def agree(one: Played, other: Played) -> bool:
    """Tell whether a line had the same outcome at both clusters, by the level of the line."""
    if one.ending != other.ending:
        return False
    if not one.outcome.succeeded or one.line.level == ENDING:
        return True
    ours, theirs = _read(one.outcome.printed), _read(other.outcome.printed)
    return _shape_in(theirs, ours) if one.line.level == SHAPE else _alike(ours, theirs)


def unexplained(seen: Seen, reasons: Sequence[Reason]) -> list[str]:
    """Return in what verbs differ for which there is no reason."""
    missing = [verb for verb in seen.differing if not any(reason.explains(verb) for reason in reasons)]
    return [told for verb in missing for told in seen.differing[verb]]


def table(seen: Sequence[Seen], reasons: Sequence[Reason]) -> str:
    """Return the section of the page about compatibility, with its marks."""
    lines = ["| `pulsar-admin` | verbs | the same | differ, see below | ask no broker |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.version} | {len(one.verbs)} | {one.same} | {len(one.differing)} | {len(one.unheard)} |" for one in seen
    ]
    lines += ["", "| verbs that differ | why |", "|---|---|"]
    lines += [row for reason in reasons for row in _row(seen, reasons, reason)]
    return BEGIN + "\n".join(lines) + "\n" + END


def _row(seen: Sequence[Seen], reasons: Sequence[Reason], reason: Reason) -> list[str]:
    """Return the row of a reason; none if no verb differs for it."""
    names = sorted({verb for one in seen for verb in one.differing if _first(reasons, verb) is reason})
    return [f"| {_grouped(names)} | {reason.because} |"] if names else []


def with_section(page: str, section: str) -> str:
    """Return a page with the text between the marks exchanged."""
    before, rest = page.split(BEGIN)
    return before + section + rest.split(END)[1]


def _first(reasons: Sequence[Reason], verb: str) -> Reason | None:
    return next((reason for reason in reasons if reason.explains(verb)), None)


def _grouped(verbs: Sequence[str]) -> str:
    groups: dict[str, list[str]] = {}
    for verb in verbs:
        group, name = verb.split()
        groups.setdefault(group, []).append(f"`{name}`")
    return "; ".join(f"`{group}` {', '.join(names)}" for group, names in groups.items())


def _with(names: Mapping[str, str], word: str) -> str:
    for place, name in names.items():
        word = word.replace(place, name)
    return word


def _without(names: Mapping[str, str], text: str) -> str:
    for place, name in names.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", place, text) if len(name) > 1 else text
    return text


def _read(printed: str) -> Any:
    """Return the value that was printed: of JSON, or of lines, whose order says nothing."""
    for pattern, name in _VARYING:
        printed = pattern.sub(name, printed)
    try:
        return json.loads(re.sub(r"(?<=: )<(\w+)>", r'"<\1>"', printed))
    except ValueError:
        return sorted(_SET.sub(_in_order, line).rstrip() for line in printed.strip().splitlines())


def _in_order(found: re.Match[str]) -> str:
    return f"[{', '.join(sorted(found[1].split(', ')))}]"


def _alike(one: Any, other: Any) -> bool:
    """Tell whether values are equal; a field that says nothing may be absent, and the order of a list is any."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_alike(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        if all(isinstance(each, str) for each in (*one, *other)):
            return sorted(one) == sorted(other)
        return len(one) == len(other) and all(_alike(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other) or not (one or other)


def _shape_in(theirs: Any, ours: Any) -> bool:
    """Tell whether ours has each field of theirs that says something, of the same kind."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(not value or (key in ours and _shape_in(value, ours[key])) for key, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return not theirs or (bool(ours) and _shape_in(theirs[0], ours[0]))
    return _kind(theirs) == _kind(ours)


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
