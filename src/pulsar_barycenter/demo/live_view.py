"""The terminal view of a running demo: brokers and their load, moves with their reasons, and counts of messages."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.bar import Bar
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pulsar_barycenter.demo.plan import Progress
from pulsar_barycenter.demo.record import Event, LoadSample, Record, imbalance

_SHOWN_EVENTS = 8
_PLAIN_EVERY_S = 10.0
_SHORT_REASON = 150
_COLOURS = {
    "assignment": "blue",
    "unload": "yellow",
    "split": "magenta",
    "broker joined": "green",
    "broker killed": "red",
}


class LiveView:
    """Shows the record of a running demo on standard error; if that is not a terminal, prints a line now and then."""

    def __init__(self, record: Record, duration_s: float, *, title: str = "Barycenter demo") -> None:
        self._record = record
        self._duration_s = duration_s
        self._console = Console(stderr=True)
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._shown, console=self._console, refresh_per_second=4)
        self._phase = "starting"
        self._phase_began_s = time.monotonic()
        self._title = title
        self._starts = StartInView(self)
        self._progress: Progress | None = None
        self._plain_at_s = 0.0
        self._told: set[Event] = set()

    def __enter__(self) -> "LiveView":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def starts(self) -> "StartInView":
        """The part of the view that shows the steps of the cluster's start."""
        return self._starts

    def dashboards(self, web_urls: Sequence[str]) -> None:
        """Show the dashboard's addresses: at the first broker, and at the others, in case the first one is killed."""
        first, *others = (f"{url}/" for url in web_urls)
        also = f" (or {', '.join(others)})" if others else ""
        if self._live:
            self._title = f"{self._title} · look at it in a browser: {first}{also}"
        else:
            self._print(f"look at it in a browser: {first}{also}")

    def phase(self, text: str) -> None:
        self._phase, self._phase_began_s = text, time.monotonic()
        if not self._live:
            self._print(text)

    def update(self, progress: Progress | None) -> None:
        self._progress = progress
        if self._live:
            return
        for event in self._record.events:  # one that is read late stands before others that were told
            if event not in self._told:
                self._told.add(event)
                self._print(_sentence(event, self._record.started_at_s))
        now_s = time.monotonic()
        if now_s - self._plain_at_s >= _PLAIN_EVERY_S:
            self._plain_at_s = now_s
            self._print(f"{self._elapsed_s():.0f} s: {self._totals()}")

    def _shown(self) -> Panel:
        shown = Group(self._head(), self._brokers(), self._events())
        phase = f"{self._phase} ({time.monotonic() - self._phase_began_s:.0f} s)"
        return Panel(shown, title=self._title, subtitle=phase)

    def _head(self) -> Table:
        head = Table.grid(expand=True)
        head.add_column(ratio=1)
        head.add_row(ProgressBar(total=self._duration_s, completed=min(self._elapsed_s(), self._duration_s)))
        head.add_row(Text(self._totals()))
        return head

    def _brokers(self) -> Table:
        latest = latest_samples(self._record)
        top = max((sample.msg_rate for sample in latest), default=0.0) or 1.0
        table = Table(box=None, expand=True, pad_edge=False)
        for title in ("broker", "messages/s", "", "bundles", "used"):
            table.add_column(title, justify="right" if title in {"messages/s", "bundles", "used"} else "left")
        for sample in latest:
            gone = sample.broker == self._record.killed_broker and self._record.killed_at_s is not None
            bar = Text("killed", style="red") if gone else Bar(top, 0, sample.msg_rate, width=30, color="blue")
            cells = ["–"] * 3 if gone else [f"{sample.msg_rate:,.0f}", str(sample.bundles), f"{sample.usage:.0%}"]
            table.add_row(sample.broker, cells[0], bar, cells[1], cells[2])
        return table

    def _events(self) -> Text:
        text = Text()
        for event in self._record.events[-_SHOWN_EVENTS:]:
            text.append(_sentence(event, self._record.started_at_s) + "\n", style=_COLOURS.get(event.kind, ""))
        return text

    def _totals(self) -> str:
        progress = self._progress
        if progress is None:
            return "no messages yet"
        value = imbalance([sample.msg_rate for sample in latest_samples(self._record)])
        shown = "" if value is None else f", imbalance {value:.2f}"
        return f"{progress.produced:,} produced, {progress.consumed:,} consumed, {progress.waiting:,} under way{shown}"

    def _elapsed_s(self) -> float:
        return max(0.0, time.time() - self._record.started_at_s)

    def _print(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class StartInView:
    """Shows the steps of a cluster's start and end as phases of a view; see `standalone.progress.StartProgress`."""

    def __init__(self, view: LiveView) -> None:
        self._view = view

    def phase(self, name: str, doing: str) -> None:
        self._view.phase(f"{name}: {doing}")

    def done(self, name: str, result: str) -> None:
        self._view.phase(f"{name}: {result}")

    def event(self, text: str) -> None:
        self._view.phase(text)


def latest_samples(record: Record) -> list[LoadSample]:
    """Return the newest sample of each broker, sorted by the brokers' names."""
    latest: dict[str, LoadSample] = {}
    for sample in record.samples:
        latest[sample.broker] = sample
    return [latest[broker] for broker in sorted(latest)]


def _sentence(event: Event, started_at_s: float) -> str:
    where = " → ".join(place for place in (event.source, event.destination) if place)
    subject = " ".join(part for part in (event.bundle, where) if part)
    reason = f": {_in_short(event.reason)}" if event.reason else ""
    return f"{event.at_s - started_at_s:6.1f} s  {event.kind}  {subject}{reason}"


def _in_short(reason: str) -> str:
    """Return the cause in a reason, or the reason if it names none, shortened; the report has the whole reason."""
    cause = reason.partition("because ")[2] or reason
    return cause if len(cause) <= _SHORT_REASON else cause[: _SHORT_REASON - 1] + "…"
