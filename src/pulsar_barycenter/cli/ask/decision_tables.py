"""What `barycenter decide` and `barycenter explain` print: decisions as JSON lines, or as tables for people."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import click
import msgspec

from pulsar_barycenter.load.bundle_load import IN_AND_OUT, LOAD_BYTES, LOAD_RATE, NEWEST, SHORT
from pulsar_barycenter.load.reasons import SETTINGS_MARK, Code, Reason, format_figure, render
from pulsar_barycenter.load.rounds.decided import BundleState, Decided, Figures, sources_of
from pulsar_barycenter.load.shedding.transfer_plan import UPON
from pulsar_barycenter.load.snapshot.extensible_document import TrafficFigures
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFile
from pulsar_barycenter.terminal.tables import Column, Kind, print_table

_MOST_ROWS: Final = 40
_MOST_NAMED: Final = 5
_PLAIN_WIDTH: Final = 120
_COLUMNS: Final = (
    Column("broker"),
    *(Column(title, Kind.FIGURE) for title in ("usage", LOAD_RATE, LOAD_BYTES, "bundles")),
    Column("verdict", Kind.SENTENCE),
)
_TOLD_BY_CAUSE: Final = frozenset({Code.SAME_BROKER, Code.NO_DESTINATION, Code.CHOSEN_AGAIN})


def headline(found: SnapshotFile, by: str) -> str:
    """Return what is decided upon, and by what."""
    snapshot = found.snapshot
    taken = ""
    if snapshot.taken_at_ms:
        taken = f", as of {datetime.fromtimestamp(snapshot.taken_at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    sizes = f"{count_of(len(snapshot.brokers), 'broker')}, {count_of(len(snapshot.bundles), 'bundle')}"
    upon = "" if snapshot.extensible is None else UPON[snapshot.extensible.traffic]
    return f"{found.source}: {sizes}{taken}; {by}" + (f"; based on {upon}" if upon else "")


def window_of(snapshot: LoadSnapshot) -> str:
    """Return which window the loads of bundles are of, by which it is decided: the extensible load manager goes by the
    newest reports unless the pipeline gives it windows."""
    is_newest = snapshot.extensible is not None and snapshot.extensible.traffic is not TrafficFigures.WINDOWS
    return NEWEST if is_newest else SHORT


def print_state(state: BundleState, window: str) -> None:
    """Print where a bundle is and its load; `window` is of the figures by which it is decided."""
    now, short = _load(state.latest), _load(state.figures)
    may = f"cannot be shed: {state.held}" if state.held else "may be shed"
    click.echo(f"{state.bundle}  on {state.broker}, {count_of(state.topics, 'topic')}; {may}")
    click.echo(f"    load, in + out: {now} by the {NEWEST}; it is decided by {short}, {window}")


def _load(figures: Figures) -> str:
    return f"{figures.msg_rate:,.0f} msg/s and {format_figure(figures.msg_throughput, 'bytes/s')}"


def print_json(lines: Iterable[Decided]) -> None:
    for line in lines:
        click.echo(msgspec.json.encode(line).decode())


def print_tables(
    lines: Sequence[Decided], *, explain: bool, shedding: Sequence[str] | None = None, window: str = SHORT
) -> None:
    """Print the decisions of one cycle: brokers with their verdicts, what moves, is placed or split, what stays.

    `explain` prints whole reasons, else what a glance takes in. `shedding` are the brokers that shed, where `lines` are
    not all there are; those whose bundles move in `lines` are named before them. `window` is of the bundles' loads.
    """
    verdicts = [line for line in lines if line.kind == "verdict"]
    if verdicts:
        _print_verdicts(verdicts, explain=explain)
    sources = sources_of(lines) or list(shedding or ())
    for line in lines:
        if line.kind == "shed":
            _print_round(line.reason, sources, explain=explain)
    for title, kind in (("moves", "unload"), ("placed", "assign"), ("split", "split"), ("stays", "refuse")):
        _print_bundles(title, [line for line in lines if line.kind == kind], window, explain=explain)


def _print_verdicts(verdicts: Sequence[Decided], *, explain: bool) -> None:
    shown = verdicts
    if len(verdicts) > _MOST_ROWS:
        shown = sorted(verdicts, key=lambda line: (-line.unloads, line.broker))[:_MOST_ROWS]
    rows = []
    for line in shown:
        figures = line.figures
        assert figures is not None
        assert figures.usage is not None
        does = f"sheds {line.unloads}" if line.unloads else "keeps all"
        rows.append(
            (
                line.broker,
                format_figure(figures.usage, "%"),
                f"{figures.msg_rate:,.0f}",
                format_figure(figures.msg_throughput, "bytes/s"),
                f"{figures.bundles:,}",
                f"{does}: {_words(line.reason, line.broker, explain=explain)}",
            )
        )
    click.echo(f"\nbrokers: {IN_AND_OUT} by the {NEWEST}")
    print_table(_COLUMNS, rows, plain_width=_PLAIN_WIDTH)
    if len(shown) < len(verdicts):
        click.echo(f"… and {len(verdicts) - len(shown):,} more brokers; --json tells of all")


def _print_round(reason: Reason, sources: Sequence[str], *, explain: bool) -> None:
    """Print which brokers shed, of whom verdicts say why, or why none does, and what would change it."""
    settings = f"; {SETTINGS_MARK}{', '.join(reason.settings)}" if reason.settings and not explain else ""
    whole = _words(reason, "", explain=explain)
    if reason.subject and sources:
        more = f" and {len(sources) - _MOST_NAMED:,} more" if len(sources) > _MOST_NAMED else ""
        whole = f"{', '.join(sources[:_MOST_NAMED])}{more} {'sheds' if len(sources) == 1 else 'shed'}"
    click.echo(f"\n{whole}{settings}")


def _print_bundles(title: str, lines: Sequence[Decided], window: str, *, explain: bool) -> None:
    if not lines:
        return
    has_load = any(line.figures is not None for line in lines)
    click.echo(f"\n{title} ({len(lines):,})" + (f": {IN_AND_OUT}, {window}" if has_load else ""))
    for line in lines[:_MOST_ROWS]:
        where = " → ".join(each for each in (line.source, line.destination) if each)
        carries = "" if line.figures is None else _load(line.figures)
        click.echo("  " + "  ".join(each for each in (line.bundle, where, carries) if each))
        click.echo(f"      {_words(line.reason, line.reason.subject, explain=explain)}")
        if line.placement is not None:
            click.echo(f"      to {_words(line.placement, '', explain=explain)}")
    if len(lines) > _MOST_ROWS:
        click.echo(f"  … and {len(lines) - _MOST_ROWS:,} more; --json tells of all")


def _words(reason: Reason, subject: str, *, explain: bool) -> str:
    """Return the sentence without its `subject`; unless `explain`, without what a glance does not take in."""
    if not explain:
        cause = reason.cause if reason.code in _TOLD_BY_CAUSE else None
        reason = msgspec.structs.replace(
            reason, strategy="", settings=(), detail="", upon="", alternatives=(), more_alternatives=0, cause=cause
        )
        if cause is not None:
            return f"{render(msgspec.structs.replace(reason, cause=None))}; because {_words(cause, '', explain=False)}"
    return render(reason).removeprefix(f"{subject}: ")
