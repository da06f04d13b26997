"""The screen of `barycenter top`: tables of brokers, bundles, decisions and topics, refreshed from a running
cluster.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rich.markup import escape
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from pulsar_barycenter.cluster_logs.decision_pages import Span
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.questions.topics import MAX_BUNDLES, MAX_TOPICS, SeenTopics
from pulsar_barycenter.screen.tables import (
    BROKERS,
    BUNDLES,
    DECISIONS,
    TABLES,
    TOPICS,
    UNKNOWN,
    ShownDecision,
    Table,
    clock,
)
from pulsar_barycenter.status.board import Board, BundleRow, arranged, heaviest
from pulsar_barycenter.terminal.tables import printable

MAX_SHOWN: Final = 500
"""The maximum number of rows that are shown: the first ones in the sort order."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The state of a cluster at one moment: `about` is a line that sums it up, `board` has the brokers and bundles, and
    `decisions` are the last decisions, oldest first.
    """

    about: str
    board: Board
    decisions: Sequence[ShownDecision]


Ask = Callable[[], Awaitable[ClusterView]]
AskTopics = Callable[[Sequence[BundleRow]], Awaitable[SeenTopics]]
"""`Ask` queries the cluster, `AskTopics` reads the topics of the given bundles.

Raises:
    ClusterError: the cluster does not answer.
"""


class _Story(ModalScreen[None]):
    """The screen that shows the decisions about one bundle, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "back")]

    def __init__(self, bundle: str, decisions: Sequence[ShownDecision]) -> None:
        super().__init__()
        self._bundle = bundle
        self._decisions = decisions

    def compose(self) -> ComposeResult:
        texts = [
            f"{clock(record.at)}  {record.kind}{' ' + record.refused if record.refused else ''}"
            f"  {record.source or UNKNOWN} → {record.destination or UNKNOWN}\n    {record.sentence}"
            for record in reversed(self._decisions)
        ]
        text = "\n\n".join(texts) or f"no recent decision; all decisions: barycenter explain --bundle {self._bundle}"
        lines = "\n".join(map(printable, f"{self._bundle}\n\n{text}".split("\n")))
        yield VerticalScroll(Static(escape(lines)), id="story")
        yield Footer()


def _has_topic(bundle: str, words: str) -> bool:
    """Return whether a bundle contains the topic that `words` names, in any form of name that clients use. Return False
    if `words` is not the name of a topic.
    """
    try:
        return Span.of_topic(TopicName.parse(words.strip())).is_covered_by(bundle)
    except InvalidNameError:
        return False


class TopScreen(App[None]):
    """The application of `barycenter top`: it queries the cluster every `interval_s` seconds. Topics are queried only
    while the table of topics is visible. A slow query delays the next one.
    """

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
        Binding("4", "tab('topics')", "topics"),
        Binding("w", "why", "why"),
        Binding("s", "order", "order by"),
        Binding("r", "reverse", "reverse"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("escape", "clear", "clear", show=False),
        Binding("space", "pause", "pause"),
    ]

    def __init__(self, ask: Ask, ask_topics: AskTopics, interval_s: float) -> None:
        super().__init__()
        self._ask = ask
        self._ask_topics = ask_topics
        self._topics = SeenTopics()
        self._bundle = ""
        """The bundle whose topics are shown; blank: the topics of the heaviest bundles."""
        self._interval_s = interval_s
        self._seen: ClusterView | None = None
        self._paused = False
        self._places = {table.name: table.place for table in TABLES}
        self._reversed = dict.fromkeys(self._places, False)
        self._words = dict.fromkeys(self._places, "")
        self._by_topic = False

    def compose(self) -> ComposeResult:
        yield Static("asking…", id="about")
        yield Static("", id="trouble")
        with TabbedContent(initial="brokers"):
            for table in TABLES:
                with TabPane(table.name, id=table.name):
                    yield DataTable(id=f"{table.name}-rows", cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="show rows with these words", id="words", disabled=True)
        yield Footer()

    def on_mount(self) -> None:
        self.look()
        self.set_interval(self._interval_s, self._look_again)

    def _look_again(self) -> None:
        if not self._paused and not any(worker.group == "asking" and worker.is_running for worker in self.workers):
            self.look()

    @work(group="asking", exclusive=True)
    async def look(self) -> None:
        """Query the cluster and show the answer. If the cluster does not answer, show why; the previous state stays."""
        trouble = self.query_one("#trouble", Static)
        try:
            self._seen = await self._ask()
        except ClusterError as error:
            trouble.update(escape(printable(str(error))))
            return
        trouble.update("")
        self._show()
        if self._table is TOPICS:
            self.look_at_topics()

    @work(group="asking topics", exclusive=True)
    async def look_at_topics(self) -> None:
        """Read and show the topics of the chosen bundle, or of the heaviest bundles if no bundle is chosen. If the
        cluster does not answer, show why; the previous topics stay.
        """
        if self._seen is None:
            return
        trouble, bundles = self.query_one("#trouble", Static), self._seen.board.bundles
        if self._bundle:
            asked = [row for row in bundles if row.bundle == self._bundle]
        else:
            asked = heaviest(bundles, MAX_TOPICS, MAX_BUNDLES)
        try:
            self._topics = await self._ask_topics(asked)
        except ClusterError as error:
            trouble.update(escape(printable(str(error))))
            return
        trouble.update("")
        self._show()

    def on_tabbed_content_tab_activated(self) -> None:
        self._show()
        if self._table is TOPICS:
            self.look_at_topics()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort the table by the clicked column; if it is the sort column already, reverse the order."""
        name = self._table.name
        if self._places[name] == event.column_index:
            self._reversed[name] = not self._reversed[name]
        self._places[name] = event.column_index
        self._show()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show what belongs to the selected row: for a broker its bundles, for a bundle its topics, and for a decision
        or topic the decisions about its bundle.
        """
        key = event.row_key.value or ""
        if self._table is BROKERS:
            self._words["bundles"] = key
            self.action_tab("bundles")
        elif self._table is BUNDLES:
            self._bundle = key.partition(" ")[0]
            self._words["topics"] = ""
            self._topics = SeenTopics()
            self.action_tab("topics")
        else:
            self._tell(self._bundle_of(key))

    def action_why(self) -> None:
        """Show the decisions about the bundle of the row under the cursor."""
        rows = self._rows
        if rows.row_count:
            self._tell(self._bundle_of(rows.coordinate_to_cell_key(rows.cursor_coordinate).row_key.value or ""))

    def _bundle_of(self, key: str) -> str:
        """Return the bundle of a row of the visible table, blank for a broker."""
        if self._table is BUNDLES:
            return key.partition(" ")[0]
        if self._table is TOPICS:
            return next((row.bundle for row in self._topics.rows if row.topic == key), "")
        decisions = () if self._table is BROKERS or self._seen is None else self._seen.decisions
        return next((record.bundle for record in decisions if DECISIONS.row_key(record) == key), "")

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
        if self._table is TOPICS and self._bundle:
            self._bundle = ""
            self.look_at_topics()
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
    def _table(self) -> Table[Any]:
        active = self.query_one(TabbedContent).active
        return next(table for table in TABLES if table.name == active)

    @property
    def _rows(self) -> DataTable[Text]:
        found: DataTable[Text] = self.query_one(f"#{self._table.name}-rows", DataTable)
        return found

    def _tell(self, bundle: str) -> None:
        if bundle and self._seen is not None:
            self.push_screen(_Story(bundle, [record for record in self._seen.decisions if record.bundle == bundle]))

    def _show(self) -> None:
        """Fill the visible table with the present rows; the cursor stays on the same broker, bundle, decision or topic,
        if that is still in the table.
        """
        if self._seen is None:
            return
        table, rows = self._table, self._rows
        column = table.columns[self._places[table.name]]
        descending = column.is_figure != self._reversed[table.name]
        rows_of_all, words = self._all(table, self._seen), self._words[table.name]
        found = arranged(rows_of_all, column.key, descending=descending, words=words, text=table.text)
        self._by_topic = bool(not found and words and table in (BUNDLES, DECISIONS))
        if self._by_topic:  # no row contains these words: they may be the name of a topic
            of_topic = [row for row in rows_of_all if _has_topic(row.bundle, words)]
            found = arranged(of_topic, column.key, descending=descending, text=table.text)
        kept = rows.coordinate_to_cell_key(rows.cursor_coordinate).row_key if rows.row_count else None
        rows.clear(columns=True)
        for shown in table.columns:
            sign = "" if shown is not column else " ▼" if descending else " ▲"
            rows.add_column(Text(shown.title + sign, justify="right" if shown.is_figure else "left"))
        for row in found[:MAX_SHOWN]:
            cells = [
                Text(printable(shown.cell(row)), justify="right" if shown.is_figure else "left")
                for shown in table.columns
            ]
            rows.add_row(*cells, key=table.row_key(row))
        if kept is not None and kept in rows.rows:
            rows.move_cursor(row=rows.get_row_index(kept))
        self._show_about(len(found))

    def _all(self, table: Table[Any], seen: ClusterView) -> Sequence[Any]:
        if table is BROKERS:
            return seen.board.brokers
        if table is TOPICS:
            return self._topics.rows
        return seen.board.bundles if table is BUNDLES else seen.decisions

    def _show_about(self, found: int) -> None:
        assert self._seen is not None
        parts = [self._seen.about, f"as of {clock(self._seen.board.taken_at_ms)} UTC"]
        if self._table is TOPICS:
            parts.append(f"topics of {self._bundle or f'the {MAX_BUNDLES} heaviest bundles at most'}")
            if self._topics.count > len(self._topics.rows):
                parts.append(f"the first {len(self._topics.rows):,} of {self._topics.count:,}")
        if found > MAX_SHOWN:
            parts.append(f"the first {MAX_SHOWN:,} of {found:,} {self._table.name}")
        if words := self._words[self._table.name]:
            which = f"the bundle of topic “{words}”" if self._by_topic else f"only rows with “{words}”"
            parts.append(f"{which} (Esc shows all)")
        if self._paused:
            parts.append("PAUSED (space resumes)")
        self.query_one("#about", Static).update(escape(printable("; ".join(parts))))
