"""The screen of `barycenter top`: tables of brokers, bundles and decisions that follow a running cluster."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Generic, TypeVar

from rich.markup import escape
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from barycenter.cli.ask.running_cluster import ClusterError
from barycenter.cli.terminal import printable
from barycenter.load.reasons import format_figure
from barycenter.logs.decision_log import DecisionRecord
from barycenter.status.board import Board, BundleRow, arranged
from barycenter.status.cluster_status import BrokerStatus

MOST_SHOWN: Final = 500
"""So many rows of a table are shown, the first of its order."""
_UNKNOWN: Final = "-"

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the cluster said at one moment: `about` is a line on the whole, `decisions` are the last ones, oldest
    first."""

    about: str
    board: Board
    decisions: Sequence[DecisionRecord]


Ask = Callable[[], Awaitable[ClusterView]]
"""Asks the cluster.

Raises:
    ClusterError: it does not answer.
"""


@dataclass(frozen=True, slots=True)
class _Column(Generic[Row]):
    """`key` orders rows, None last; figures stand to the right and come greatest first."""

    title: str
    key: Callable[[Row], Any]
    cell: Callable[[Row], str]
    is_figure: bool = True


@dataclass(frozen=True, slots=True)
class _Table(Generic[Row]):
    """A tab: `row_key` tells rows apart, `text` is what a filter looks at, `place` the column that orders at first."""

    name: str
    columns: Sequence[_Column[Row]]
    row_key: Callable[[Row], str]
    text: Callable[[Row], str]
    place: int


def _number(title: str, value: Callable[[Row], float | None], digits: int = 0) -> _Column[Row]:
    def cell(row: Row) -> str:
        found = value(row)
        return _UNKNOWN if found is None else f"{found:,.{digits}f}"

    return _Column(title, value, cell)


def _throughput(title: str, value: Callable[[Row], float | None]) -> _Column[Row]:
    def cell(row: Row) -> str:
        found = value(row)
        return _UNKNOWN if found is None else format_figure(found, "bytes/s")

    return _Column(title, value, cell)


def _name(title: str, value: Callable[[Row], str]) -> _Column[Row]:
    return _Column(title, value, value, is_figure=False)


_BROKERS: Final[_Table[BrokerStatus]] = _Table(
    "brokers",
    (
        _name("broker", lambda row: row.broker),
        _number("bundles", lambda row: row.bundles),
        _number("topics", lambda row: row.topics),
        _number("msg/s in", lambda row: row.msg_rate_in),
        _number("msg/s out", lambda row: row.msg_rate_out),
        _throughput("in", lambda row: row.msg_throughput_in),
        _throughput("out", lambda row: row.msg_throughput_out),
        _number("max %", lambda row: row.max_usage, 1),
        _number("CPU %", lambda row: row.cpu, 1),
        _number("memory %", lambda row: row.memory, 1),
        _number("direct %", lambda row: row.direct_memory, 1),
        _number("net in %", lambda row: row.bandwidth_in, 1),
        _number("net out %", lambda row: row.bandwidth_out, 1),
        _number("report, s", lambda row: row.reported_s_ago),
    ),
    lambda row: row.broker,
    lambda row: row.broker,
    7,
)
_BUNDLES: Final[_Table[BundleRow]] = _Table(
    "bundles",
    (
        _name("bundle", lambda row: row.bundle),
        _name("broker", lambda row: row.broker + (f" → {row.going_to}" if row.going_to else "")),
        _number("msg/s in", lambda row: row.msg_rate_in if row.is_known else None),
        _number("msg/s out", lambda row: row.msg_rate_out if row.is_known else None),
        _throughput("in", lambda row: row.msg_throughput_in if row.is_known else None),
        _throughput("out", lambda row: row.msg_throughput_out if row.is_known else None),
        _number("long msg/s", lambda row: row.long_rate),
        _number("topics", lambda row: row.topics if row.is_known else None),
        _number("producers", lambda row: row.producers if row.is_known else None),
        _number("consumers", lambda row: row.consumers if row.is_known else None),
    ),
    lambda row: f"{row.bundle} {row.broker}",
    lambda row: f"{row.bundle} {row.broker} {row.going_to}",
    2,
)
_DECISIONS: Final[_Table[DecisionRecord]] = _Table(
    "decisions",
    (
        _Column("at, UTC", lambda row: row.at, lambda row: _clock(row.at)),
        _name("what", lambda row: f"refused to {row.refused}" if row.kind == "refuse" else row.kind),
        _name("bundle", lambda row: row.bundle),
        _name("from", lambda row: row.source),
        _name("to", lambda row: row.destination),
        _name("why", lambda row: row.sentence),
    ),
    lambda row: f"{row.by} {row.number}",
    lambda row: f"{row.kind} {row.refused} {row.bundle} {row.source} {row.destination} {row.sentence}",
    0,
)
TABLES: Final[tuple[_Table[Any], ...]] = (_BROKERS, _BUNDLES, _DECISIONS)


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%m-%d %H:%M:%S")


class _Story(ModalScreen[None]):
    """What was decided about one bundle, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "back")]

    def __init__(self, bundle: str, decisions: Sequence[DecisionRecord]) -> None:
        super().__init__()
        self._bundle = bundle
        self._decisions = decisions

    def compose(self) -> ComposeResult:
        told = [
            f"{_clock(each.at)}  {each.kind}{' ' + each.refused if each.refused else ''}"
            f"  {each.source or _UNKNOWN} → {each.destination or _UNKNOWN}\n    {each.sentence}"
            for each in reversed(self._decisions)
        ]
        text = (
            "\n\n".join(told) or f"none of the last decisions; barycenter explain --bundle {self._bundle} looks at all"
        )
        lines = "\n".join(map(printable, f"{self._bundle}\n\n{text}".split("\n")))
        yield VerticalScroll(Static(escape(lines)), id="story")
        yield Footer()


class TopScreen(App[None]):
    """Asks every `interval_s`; a question that takes longer is waited for."""

    TITLE = "barycenter top"
    AUTO_FOCUS = "#brokers-rows"
    CSS = """
    #about { height: auto; padding: 0 1; }
    #trouble { height: auto; padding: 0 1; color: $error; }
    #words { display: none; }
    #words.shown { display: block; }
    _Story { align: center middle; }
    #story { width: 90%; height: 80%; border: round $primary; padding: 1; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("1", "tab('brokers')", "brokers"),
        Binding("2", "tab('bundles')", "bundles"),
        Binding("3", "tab('decisions')", "decisions"),
        Binding("s", "order", "order by"),
        Binding("r", "reverse", "reverse"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("escape", "clear", "clear", show=False),
        Binding("space", "pause", "pause"),
    ]

    def __init__(self, ask: Ask, interval_s: float) -> None:
        super().__init__()
        self._ask = ask
        self._interval_s = interval_s
        self._seen: ClusterView | None = None
        self._paused = False
        self._places = {table.name: table.place for table in TABLES}
        self._reversed = dict.fromkeys(self._places, False)
        self._words = dict.fromkeys(self._places, "")

    def compose(self) -> ComposeResult:
        yield Static("asking…", id="about")
        yield Static("", id="trouble")
        with TabbedContent(initial="brokers"):
            for table in TABLES:
                with TabPane(table.name, id=table.name):
                    yield DataTable(id=f"{table.name}-rows", cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="words that a row has", id="words", disabled=True)
        yield Footer()

    def on_mount(self) -> None:
        self.look()
        self.set_interval(self._interval_s, self._look_again)

    def _look_again(self) -> None:
        if not self._paused and not any(worker.group == "asking" and worker.is_running for worker in self.workers):
            self.look()

    @work(group="asking", exclusive=True)
    async def look(self) -> None:
        """Ask the cluster, and show what it says; what it said before stays if it does not answer."""
        trouble = self.query_one("#trouble", Static)
        try:
            self._seen = await self._ask()
        except ClusterError as error:
            trouble.update(escape(printable(str(error))))
            return
        trouble.update("")
        self._show()

    def on_tabbed_content_tab_activated(self) -> None:
        self._show()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Order by the column that was clicked, and the other way round if it is by that already."""
        name = self._table.name
        if self._places[name] == event.column_index:
            self._reversed[name] = not self._reversed[name]
        self._places[name] = event.column_index
        self._show()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show a broker's bundles, or what was decided about a bundle."""
        key = event.row_key.value or ""
        if self._table is _BROKERS:
            self._words["bundles"] = key
            self.action_tab("bundles")
        elif self._table is _BUNDLES:
            self._tell(key.partition(" ")[0])
        else:
            decisions = () if self._seen is None else self._seen.decisions
            self._tell(next((each.bundle for each in decisions if _DECISIONS.row_key(each) == key), ""))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._words[self._table.name] = event.value
        self._show()

    def on_input_submitted(self) -> None:
        self._leave_filter()

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self._show()
        self._rows.focus()

    def action_order(self) -> None:
        table = self._table
        self._places[table.name] = (self._places[table.name] + 1) % len(table.columns)
        self._reversed[table.name] = False
        self._show()

    def action_reverse(self) -> None:
        self._reversed[self._table.name] = not self._reversed[self._table.name]
        self._show()

    def action_filter(self) -> None:
        words = self.query_one("#words", Input)
        words.value = self._words[self._table.name]
        words.disabled = False
        words.add_class("shown")
        words.focus()

    def action_clear(self) -> None:
        self._words[self._table.name] = ""
        self._leave_filter()
        self._show()

    def _leave_filter(self) -> None:
        words = self.query_one("#words", Input)
        words.remove_class("shown")
        words.disabled = True
        self._rows.focus()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._show()

    @property
    def _table(self) -> _Table[Any]:
        active = self.query_one(TabbedContent).active
        return next(table for table in TABLES if table.name == active)

    @property
    def _rows(self) -> DataTable[Text]:
        found: DataTable[Text] = self.query_one(f"#{self._table.name}-rows", DataTable)
        return found

    def _tell(self, bundle: str) -> None:
        if bundle and self._seen is not None:
            self.push_screen(_Story(bundle, [each for each in self._seen.decisions if each.bundle == bundle]))

    def _show(self) -> None:
        """Fill the table in sight; the cursor stays with its row."""
        if self._seen is None:
            return
        table, rows = self._table, self._rows
        column = table.columns[self._places[table.name]]
        descending = column.is_figure != self._reversed[table.name]
        found = arranged(
            self._all(table, self._seen),
            column.key,
            descending=descending,
            words=self._words[table.name],
            text=table.text,
        )
        kept = rows.coordinate_to_cell_key(rows.cursor_coordinate).row_key if rows.row_count else None
        rows.clear(columns=True)
        for each in table.columns:
            sign = "" if each is not column else " ▼" if descending else " ▲"
            rows.add_column(Text(each.title + sign, justify="right" if each.is_figure else "left"))
        for row in found[:MOST_SHOWN]:
            cells = [
                Text(printable(each.cell(row)), justify="right" if each.is_figure else "left") for each in table.columns
            ]
            rows.add_row(*cells, key=table.row_key(row))
        if kept is not None and kept in rows.rows:
            rows.move_cursor(row=rows.get_row_index(kept))
        self._show_about(len(found))

    def _all(self, table: _Table[Any], seen: ClusterView) -> Sequence[Any]:
        if table is _BROKERS:
            return seen.board.brokers
        return seen.board.bundles if table is _BUNDLES else seen.decisions

    def _show_about(self, found: int) -> None:
        assert self._seen is not None
        parts = [self._seen.about, f"as of {_clock(self._seen.board.taken_at_ms)} UTC"]
        if found > MOST_SHOWN:
            parts.append(f"the first {MOST_SHOWN:,} of {found:,} {self._table.name}")
        if words := self._words[self._table.name]:
            parts.append(f"only rows with “{words}” (Esc shows all)")
        if self._paused:
            parts.append("PAUSED (space goes on)")
        self.query_one("#about", Static).update(escape(printable("; ".join(parts))))
