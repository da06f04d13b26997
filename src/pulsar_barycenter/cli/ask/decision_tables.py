"""Prints decisions for `barycenter decide` and `barycenter explain`: as JSON lines or as tables."""

from collections.abc import Collection, Iterable, Sequence
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
from pulsar_barycenter.naming.bundle import is_of_a_broker_itself
from pulsar_barycenter.naming.counted import bundles_in_words, count_of
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFile
from pulsar_barycenter.terminal.tables import Column, Kind, print_table

_MAX_ROWS: Final = 40
_MAX_NAMES: Final = 5
PLAIN_WIDTH: Final = 120
"""The width of the output if it is not a terminal, in characters."""
_COLUMNS: Final = (
    Column("broker"),
    *(Column(title, Kind.FIGURE) for title in ("usage", LOAD_RATE, LOAD_BYTES, "bundles")),
    Column("verdict", Kind.SENTENCE),
)
_SAID_IN_DETAIL: Final = frozenset(
    {Code.CHOSEN_BY_STRATEGY, Code.SHEDS_BY_STRATEGY, Code.MOVES_BY_STRATEGY, Code.KEPT_BY_STRATEGY}
)
"""Reasons of strategies from other packages: the detail is the sentence of the strategy."""
_EXPLAINED_BY_CAUSE: Final = frozenset({Code.SAME_BROKER, Code.NO_DESTINATION, Code.CHOSEN_AGAIN})


def headline(found: SnapshotFile, by: str) -> str:
    """Return the first line of the output. It describes the snapshot; `by` is a text that names the strategies and the
    settings that decide.
    """
    snapshot = found.snapshot
    taken = ""
    if snapshot.taken_at_ms:
        taken = f", as of {datetime.fromtimestamp(snapshot.taken_at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    sizes = f"{count_of(len(snapshot.brokers), 'broker')}, {bundles_in_words(snapshot.bundles.names)}"
    upon = "" if snapshot.extensible is None else UPON[snapshot.extensible.traffic]
    return f"{found.source}: {sizes}{taken}; {by}" + (f"; based on {upon}" if upon else "")


def window_of(snapshot: LoadSnapshot) -> str:
    """Return the name of the window whose load the strategies compare: SHORT or NEWEST.

    The extensible load manager uses the newest reports unless the pipeline provides windows.
    """
    is_newest = snapshot.extensible is not None and snapshot.extensible.traffic is not TrafficFigures.WINDOWS
    return NEWEST if is_newest else SHORT


def print_state(state: BundleState, window: str) -> None:
    """Print the broker of a bundle and its load; `window` names the window of the load that the leader uses."""
    now, short = _load(state.latest), _load(state.figures)
    may = f"cannot be shed: {state.held}" if state.held else "may be shed"
    click.echo(f"{state.bundle}  on {state.broker}, {count_of(state.topics, 'topic')}; {may}")
    click.echo(f"    load, in + out: {now} by the {NEWEST}; decisions use {short}, {window}")


def _load(figures: Figures) -> str:
    return f"{figures.msg_rate:,.0f} msg/s and {format_figure(figures.msg_throughput, 'bytes/s')}"


def print_json(lines: Iterable[Decided]) -> None:
    for line in lines:
        click.echo(msgspec.json.encode(line).decode())


def print_tables(
    lines: Sequence[Decided],
    bundles: Collection[str],
    *,
    explain: bool,
    shedding: Sequence[str] | None = None,
    window: str = SHORT,
) -> None:
    """Print the decisions of one cycle: the verdict on each broker, then bundles that move, are placed, split or stay.

    `explain` prints complete reasons instead of short ones. `shedding` names the brokers that shed; it is used only if
    no bundle of `lines` moves, because `lines` may be a part of the round. `window` names the window of the bundles'
    load. `bundles` are the names of all bundles of the snapshot.
    """
    verdicts = [line for line in lines if line.kind == "verdict"]
    if verdicts:
        _print_verdicts(verdicts, bundles, explain=explain)
    sources = sources_of(lines) or list(shedding or ())
    for line in lines:
        if line.kind == "shed":
            _print_round(line.reason, sources, explain=explain)
    for title, kind in (("moves", "unload"), ("placed", "assign"), ("split", "split"), ("stays", "refuse")):
        _print_bundles(title, [line for line in lines if line.kind == kind], window, explain=explain)


def _print_verdicts(verdicts: Sequence[Decided], bundles: Collection[str], *, explain: bool) -> None:
    shown = verdicts
    if len(verdicts) > _MAX_ROWS:
        shown = sorted(verdicts, key=lambda line: (-line.unloads, line.broker))[:_MAX_ROWS]
    rows = []
    usages = _percents([line.figures.usage or 0.0 for line in shown if line.figures is not None])
    for line, usage in zip(shown, usages, strict=True):
        figures = line.figures
        assert figures is not None
        does = f"sheds {line.unloads}" if line.unloads else "keeps all"
        rows.append(
            (
                line.broker,
                usage,
                f"{figures.msg_rate:,.0f}",
                format_figure(figures.msg_throughput, "bytes/s"),
                f"{figures.bundles:,}",
                f"{does}: {_words(line.reason, line.broker, explain=explain)}",
            )
        )
    counted = "; bundles include heartbeat bundles" if any(map(is_of_a_broker_itself, bundles)) else ""
    click.echo(f"\nbrokers: {IN_AND_OUT} by the {NEWEST}{counted}")
    print_table(_COLUMNS, rows, plain_width=PLAIN_WIDTH)
    if len(shown) < len(verdicts):
        click.echo(f"… and {len(verdicts) - len(shown):,} more brokers; --json prints all")


def _percents(fractions: Sequence[float]) -> list[str]:
    """Return fractions as percent, all with one decimal place, or all with none if they are whole numbers."""
    told = [f"{100 * fraction:.1f}" for fraction in fractions]
    are_whole = all(text.endswith(".0") for text in told)
    return [f"{text.removesuffix('.0') if are_whole else text} %" for text in told]


def _print_round(reason: Reason, sources: Sequence[str], *, explain: bool) -> None:
    """Print `sources`, the brokers that shed, or, if there are none, the reason why no broker sheds. Without `explain`
    add the settings that would change this result.
    """
    settings = f"; {SETTINGS_MARK}{', '.join(reason.settings)}" if reason.settings and not explain else ""
    whole = _words(reason, "", explain=explain)
    if reason.subject and sources:
        more = f" and {len(sources) - _MAX_NAMES:,} more" if len(sources) > _MAX_NAMES else ""
        whole = f"{', '.join(sources[:_MAX_NAMES])}{more} {'sheds' if len(sources) == 1 else 'shed'}"
    click.echo(f"\n{whole}{settings}")


def _print_bundles(title: str, lines: Sequence[Decided], window: str, *, explain: bool) -> None:
    if not lines:
        return
    has_load = any(line.figures is not None for line in lines)
    click.echo(f"\n{title} ({len(lines):,})" + (f": {IN_AND_OUT}, {window}" if has_load else ""))
    for line in lines[:_MAX_ROWS]:
        where = " → ".join(broker for broker in (line.source, line.destination) if broker)
        carries = "" if line.figures is None else _load(line.figures)
        click.echo("  " + "  ".join(part for part in (line.bundle, where, carries) if part))
        click.echo(f"      {_words(line.reason, line.reason.subject, explain=explain)}")
        if line.placement is not None:
            click.echo(f"      to {_words(line.placement, '', explain=explain)}")
    if len(lines) > _MAX_ROWS:
        click.echo(f"  … and {len(lines) - _MAX_ROWS:,} more bundles; --json prints all")


def _words(reason: Reason, subject: str, *, explain: bool) -> str:
    """Return the sentence of a reason without its `subject`; with `explain` the whole sentence, otherwise without
    details.
    """
    if not explain:
        cause = reason.cause if reason.code in _EXPLAINED_BY_CAUSE else None
        detail = reason.detail if reason.code in _SAID_IN_DETAIL else ""
        reason = msgspec.structs.replace(
            reason, strategy="", settings=(), detail=detail, upon="", alternatives=(), more_alternatives=0, cause=cause
        )
        if cause is not None:
            return f"{render(msgspec.structs.replace(reason, cause=None))}; because {_words(cause, '', explain=False)}"
    return render(reason).removeprefix(f"{subject}: ")
