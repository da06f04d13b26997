"""The screen of `barycenter top`: tables of brokers, bundles, decisions and topics that follow a running cluster."""

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

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.cluster_logs.decision_pages import Span
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.questions.topics import MOST_BUNDLES, MOST_TOPICS, SeenTopics
from pulsar_barycenter.screen.tables import BROKERS, BUNDLES, DECISIONS, TABLES, TOPICS, UNKNOWN, Table, clock
from pulsar_barycenter.status.board import Board, BundleRow, arranged, heaviest
from pulsar_barycenter.terminal.tables import printable

MOST_SHOWN: Final = 500
"""So many rows of a table are shown, the first of its order."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the cluster said at one moment: `about` is a line on the whole, `decisions` are the last ones, oldest
    first."""

    about: str
    board: Board
    decisions: Sequence[DecisionRecord]


Ask = Callable[[], Awaitable[ClusterView]]
AskTopics = Callable[[Sequence[BundleRow]], Awaitable[SeenTopics]]
"""Ask the cluster, the latter for the topics of bundles.

Raises:
    ClusterError: it does not answer.
"""


class _Story(ModalScreen[None]):
    """What was decided about one bundle, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss", "back")]

    def __init__(self, bundle: str, decisions: Sequence[DecisionRecord]) -> None:
        super().__init__()
        self._bundle = bundle
        self._decisions = decisions

    def compose(self) -> ComposeResult:
        told = [
            f"{clock(each.at)}  {each.kind}{' ' + each.refused if each.refused else ''}"
            f"  {each.source or UNKNOWN} → {each.destination or UNKNOWN}\n    {each.sentence}"
            for each in reversed(self._decisions)
        ]
        text = (
            "\n\n".join(told) or f"none of the last decisions; barycenter explain --bundle {self._bundle} looks at all"
        )
        lines = "\n".join(map(printable, f"{self._bundle}\n\n{text}".split("\n")))
        yield VerticalScroll(Static(escape(lines)), id="story")
        yield Footer()


def _has_topic(bundle: str, words: str) -> bool:
    """Tell whether a topic, named as clients name it, lies in a bundle; what is no name of one lies in none."""
    try:
        return Span.of_topic(TopicName.parse(words.strip())).is_covered_by(bundle)
    except InvalidNameError:
        return False


class TopScreen(App[None]):
    """Asks every `interval_s`, for topics while they are shown; a question that takes longer is waited for."""

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
        """The one whose topics are shown; blank: those of the heaviest."""
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
        if self._table is TOPICS:
            self.look_at_topics()

    @work(group="asking topics", exclusive=True)
    async def look_at_topics(self) -> None:
        """Ask for the topics of the bundle that was chosen, else of the heaviest."""
        if self._seen is None:
            return
        trouble, bundles = self.query_one("#trouble", Static), self._seen.board.bundles
        if self._bundle:
            asked = [row for row in bundles if row.bundle == self._bundle]
        else:
            asked = heaviest(bundles, MOST_TOPICS, MOST_BUNDLES)
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
        """Order by the column that was clicked, and the other way round if it is by that already."""
        name = self._table.name
        if self._places[name] == event.column_index:
            self._reversed[name] = not self._reversed[name]
        self._places[name] = event.column_index
        self._show()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show a broker's bundles, a bundle's topics, or what was decided about the bundle of the row."""
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
        """Show what was decided about the bundle of the row under the cursor."""
        rows = self._rows
        if rows.row_count:
            self._tell(self._bundle_of(rows.coordinate_to_cell_key(rows.cursor_coordinate).row_key.value or ""))

    def _bundle_of(self, key: str) -> str:
        """Return the bundle that a row of the table in sight is about, blank for a broker."""
        if self._table is BUNDLES:
            return key.partition(" ")[0]
        if self._table is TOPICS:
            return next((each.bundle for each in self._topics.rows if each.topic == key), "")
        decisions = () if self._table is BROKERS or self._seen is None else self._seen.decisions
        return next((each.bundle for each in decisions if DECISIONS.row_key(each) == key), "")

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
            self.push_screen(_Story(bundle, [each for each in self._seen.decisions if each.bundle == bundle]))

    def _show(self) -> None:
        """Fill the table in sight; the cursor stays with its row."""
        if self._seen is None:
            return
        table, rows = self._table, self._rows
        column = table.columns[self._places[table.name]]
        descending = column.is_figure != self._reversed[table.name]
        rows_of_all, words = self._all(table, self._seen), self._words[table.name]
        found = arranged(rows_of_all, column.key, descending=descending, words=words, text=table.text)
        self._by_topic = bool(not found and words and table in (BUNDLES, DECISIONS))
        if self._by_topic:  # no row has these words: they may name a topic
            of_topic = [row for row in rows_of_all if _has_topic(row.bundle, words)]
            found = arranged(of_topic, column.key, descending=descending, text=table.text)
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
            parts.append(f"topics of {self._bundle or f'the {MOST_BUNDLES} heaviest bundles at most'}")
            if self._topics.count > len(self._topics.rows):
                parts.append(f"the first {len(self._topics.rows):,} of {self._topics.count:,}")
        if found > MOST_SHOWN:
            parts.append(f"the first {MOST_SHOWN:,} of {found:,} {self._table.name}")
        if words := self._words[self._table.name]:
            which = f"the bundle that topic “{words}” is in" if self._by_topic else f"only rows with “{words}”"
            parts.append(f"{which} (Esc shows all)")
        if self._paused:
            parts.append("PAUSED (space goes on)")
        self.query_one("#about", Static).update(escape(printable("; ".join(parts))))
