"""What `barycenter decide` and `barycenter explain` print: decisions as JSON lines, or as tables for people."""

import io
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import click
import msgspec
from rich.console import Console
from rich.table import Table

from barycenter.load.reasons import Code, Reason, format_figure, render
from barycenter.load.snapshot.load_snapshot import LoadSnapshot

_MOST_ROWS = 40
_PLAIN_WIDTH = 120
_TOLD_BY_CAUSE = frozenset({Code.SAME_BROKER, Code.NO_DESTINATION, Code.CHOSEN_AGAIN})


class Figures(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a broker or bundle carries: rates are msg/s, throughput is bytes/s, both in + out; usage is a fraction.

    A broker's are those of its newest report, a bundle's those of its short window.
    """

    msg_rate: float
    msg_throughput: float
    usage: float | None = None
    bundles: int | None = None


class Decided(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """One line. `kind` as in the decision log, and "verdict": why `broker` sheds (`unloads` bundles) or does not.

    `placement` says why a bundle goes to `destination`.
    """

    cycle: int
    kind: str
    broker: str = ""
    figures: Figures | None = None
    unloads: int = 0
    bundle: str = ""
    source: str = ""
    destination: str = ""
    refused: str = ""
    sentence: str
    reason: Reason
    placement: Reason | None = None


class BundleState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Where a bundle is and what it carries; `held` says why no shedder may choose it, "" if any may."""

    kind: str = "bundle"
    bundle: str
    broker: str
    figures: Figures
    topics: int
    held: str


def state_of(snapshot: LoadSnapshot, bundle: str) -> list[BundleState]:
    """Return a state for each broker that reports the bundle."""
    bundles = snapshot.bundles
    found = []
    for row in range(bisect_left(bundles.names, bundle), bisect_right(bundles.names, bundle)):
        why = (
            (bundles.broker_bound[row], "its namespace belongs to the broker"),
            (bundles.recently_unloaded[row], "it was unloaded a short while ago"),
            (not bundles.listed[row], "its broker reports figures of it, but does not list it"),
            (not bundles.has_windows[row], "nothing is known of its past"),
        )
        figures = Figures(msg_rate=float(bundles.short.rate[row]), msg_throughput=float(bundles.short.throughput[row]))
        found.append(
            BundleState(
                bundle=bundle,
                broker=snapshot.brokers.names[bundles.owner[row]],
                figures=figures,
                topics=int(bundles.topics[row]),
                held=next((text for holds, text in why if holds), ""),
            )
        )
    return found


def print_state(state: BundleState) -> None:
    carries = format_figure(state.figures.msg_throughput, "bytes/s")
    may = f"cannot be shed: {state.held}" if state.held else "may be shed"
    click.echo(f"{state.bundle}  on {state.broker}, {carries}, {state.topics:,} topics; {may}")


def print_json(lines: Iterable[Decided]) -> None:
    for line in lines:
        click.echo(msgspec.json.encode(line).decode())


def print_tables(lines: Sequence[Decided], *, explain: bool) -> None:
    """Print the decisions of one cycle: brokers with their verdicts, what moves, is placed or split, what stays.

    `explain` prints whole reasons, else what a glance takes in.
    """
    verdicts = [line for line in lines if line.kind == "verdict"]
    if verdicts:
        _print_verdicts(verdicts, explain=explain)
    for line in lines:
        if line.kind == "shed":
            _print_round(line.reason, explain=explain)
    for title, kind in (("moves", "unload"), ("placed", "assign"), ("split", "split"), ("stays", "refuse")):
        _print_bundles(title, [line for line in lines if line.kind == kind], explain=explain)


def _print_verdicts(verdicts: Sequence[Decided], *, explain: bool) -> None:
    shown = verdicts
    if len(verdicts) > _MOST_ROWS:
        shown = sorted(verdicts, key=lambda line: (-line.unloads, line.broker))[:_MOST_ROWS]
    table = Table(box=None, pad_edge=False)
    table.add_column("broker", no_wrap=True)
    for title in ("usage", "msg/s", "throughput", "bundles"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for line in shown:
        figures = line.figures
        assert figures is not None
        assert figures.usage is not None
        does = f"sheds {line.unloads}" if line.unloads else "keeps all"
        table.add_row(
            line.broker,
            format_figure(figures.usage, "%"),
            f"{figures.msg_rate:,.0f}",
            format_figure(figures.msg_throughput, "bytes/s"),
            f"{figures.bundles:,}",
            f"{does}: {_words(line.reason, line.broker, explain=explain)}",
        )
    click.echo()
    _print_table(table)
    if len(shown) < len(verdicts):
        click.echo(f"… and {len(verdicts) - len(shown):,} more brokers; --json tells of all")


def _print_round(reason: Reason, *, explain: bool) -> None:
    """Print why anything, or nothing, is shed, unless a verdict says the same, and what would change it."""
    settings = f"; set by {', '.join(reason.settings)}" if reason.settings and not explain else ""
    whole = f"{reason.subject} sheds" if reason.subject else _words(reason, "", explain=explain)
    click.echo(f"\n{whole}{settings}")


def _print_bundles(title: str, lines: Sequence[Decided], *, explain: bool) -> None:
    if not lines:
        return
    click.echo(f"\n{title} ({len(lines):,})")
    for line in lines[:_MOST_ROWS]:
        where = " → ".join(each for each in (line.source, line.destination) if each)
        carries = "" if line.figures is None else format_figure(line.figures.msg_throughput, "bytes/s")
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
            reason, strategy="", settings=(), detail="", alternatives=(), more_alternatives=0, cause=cause
        )
        if cause is not None:
            return f"{render(msgspec.structs.replace(reason, cause=None))}; because {_words(cause, '', explain=False)}"
    return render(reason).removeprefix(f"{subject}: ")


def _print_table(table: Table) -> None:
    console = Console(file=io.StringIO(), width=Console().width if sys.stdout.isatty() else _PLAIN_WIDTH)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
