"""Prints a recommendation on a terminal: one sentence first, then the evidence."""

import textwrap
from collections.abc import Sequence
from typing import Final

import click

from pulsar_barycenter.load.reasons import format_figure
from pulsar_barycenter.load.sizing import HOURS, hour_name
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.advice.document import Advice, AdviceVerdict, Configuration, Period
from pulsar_barycenter.replay.advice.likeness import unlikeness
from pulsar_barycenter.replay.right_sizing import RightSizing
from pulsar_barycenter.terminal.tables import Column, Kind, output_width, print_table, printable

_WIDTH: Final = 120
_MAX_ROWS: Final = 12
"""The number of rows of a table of configurations, best first; the document has all."""


def print_advice(advice: Advice) -> None:
    """Print a recommendation."""
    _print_text("", advice.sentence)
    if unlike := unlikeness(advice.observed):
        _print_text("", f"Mind: {unlike}.")
    if advice.changes:
        _print_title("What changes")
        for change in advice.changes:
            click.echo(printable(f"{change.key}={change.advised}"))
            dynamic = "can be set while brokers run" if change.is_dynamic else "read when a broker starts"
            _print_text("    ", f"at present {change.today or 'blank'}; {change.why}; {dynamic}")
    _print_title("Held-out part of the history, not used for the selection")
    print_evidence(_shown(advice), advice.rule.price)
    if advice.advised is not None:
        _print_title("What gets worse")
        if advice.worse:
            print_differences(advice)
        else:
            click.echo("No measure is worse than at present, except while the change settles.")
        over, today = advice.advised.going_over, advice.today.going_over
        _print_text(
            "",
            f"Cost of the change: in the first {_minutes(advice.settling)} it unloaded"
            f" {format_figure(over.unloads, 'bundles')} and disturbed"
            f" {format_figure(over.sessions_disturbed, 'sessions')}; the present configuration unloaded"
            f" {format_figure(today.unloads, '')} and disturbed {format_figure(today.sessions_disturbed, '')}.",
        )
    if advice.sensitivity:
        _print_title("One setting changed by a notch")
        print_notches(advice)
        others = sum(not notch.stands for notch in advice.sensitivity)
        if others:
            _print_text(
                "",
                f"{others} of these {len(advice.sensitivity)} would change the result: the more there are, the more the"
                " result depends on exactly this setting and this load.",
            )
    if advice.by_seed and advice.best is not None:
        gains = ", ".join(f"{run.gain:+.2g} with seed {run.seed}" for run in advice.by_seed)
        what = "advised" if advice.advised is not None else "nearest"
        _print_text("", f"Savings of the {what} configuration on the held-out part, points of cost: {gains}.")
    if advice.observed:
        _print_title("The recorded history, and its replay with the present configuration")
        print_observed(advice)
        _print_text(
            "",
            "Moves by operators, changes of settings or of the leader, and the shedder's memory are not replayed; usage"
            " in the history is as brokers reported it, weighted, and limited to 100 %.",
        )
    if advice.right_sizing is not None:
        _print_title("How many brokers the load needs")
        for line in sizing_lines(advice.right_sizing):
            _print_text("", line)
    if advice.findings:
        _print_title("What balancing cannot solve")
    for finding in advice.findings:
        _print_text(f"{finding.kind}  ", finding.sentence, 4)
        _print_text("    → ", finding.mend, 6)
    if advice.warnings:
        _print_title("Mind")
    for warning in advice.warnings:
        _print_text("- ", warning, 2)


def sizing_lines(found: RightSizing) -> list[str]:
    """Return sentences that say how many brokers the load needs in each hour of the week."""
    rule, needed = found.rule, found.week.needed
    busiest = next(hour for hour, count in enumerate(needed) if count == found.most)
    quietest = next(hour for hour, count in enumerate(needed) if count == found.least)
    spare = f", {rule.spare} of them spare" if rule.spare else ""
    lines = [
        f"With a head-room of {rule.head_room:.0%}, evenly loaded: {count_of(found.most, 'broker')}{spare} in the"
        f" busiest hour ({hour_name(busiest)} h UTC), {found.least} in the quietest ({hour_name(quietest)} h); today"
        f" {found.today}. {_saving(found)}"
    ]
    if found.plan is not None and found.cpu_rule is not None and found.fixed is not None:
        followed = {"by plan": found.plan, "by CPU above 70 %": found.cpu_rule, "as today": found.fixed}
        told = "; ".join(
            f"{name} {each.broker_hours:,.0f} broker-hours, {each.minutes_above:,.0f} min above the head-room,"
            f" {each.added} added, {each.drained} drained"
            for name, each in followed.items()
        )
        lines.append(f"Replayed over the last {found.hours:g} h, planned from the time before: {told}.")
    if found.least < found.today:
        lines.append("Scale down by `barycenter drain`, which moves the bundles of a broker before it ends.")
    return lines


def _saving(found: RightSizing) -> str:
    known = "" if found.hours_known == HOURS else f" in the {found.hours_known} hours of the week that are known"
    if found.saved < 0:
        return f"The present brokers lack {-found.saved:,} broker-hours a week{known}."
    return f"Following the need would save {found.saved:,} broker-hours a week{known}."


def _minutes(period: Period) -> str:
    minutes = (period.until_ms - period.since_ms) / 60_000
    return f"{minutes / 60:.3g} h" if minutes >= 120 else f"{minutes:.3g} min"


def _shown(advice: Advice) -> list[tuple[str, Configuration]]:
    """Return the configurations to print as rows of a table, each with the title of its row.

    First comes the configuration of today, then the advised one, or the best one that was tried if no change is
    advised. The others follow without a title, the cheapest first; those that vary a key which today's configuration
    does not set are left out.
    """
    found = [("today", advice.today)]
    if advice.best is not None:
        found.append(("advised" if advice.verdict is AdviceVerdict.CHANGE else "nearest", advice.best))
    compared = {configuration.title for _, configuration in found}
    others = [configuration for configuration in advice.configurations if configuration.title not in compared]
    plain = [configuration for configuration in others if set(configuration.settings) <= set(advice.today.settings)]
    return found + [("", configuration) for configuration in plain[: _MAX_ROWS - len(found)]]


def print_evidence(rows: Sequence[tuple[str, Configuration]], price: float) -> None:
    figures = [
        [
            f"{each.held_out.cost:.3g}",
            f"{100 * each.held_out.regret:.3g}",
            f"{each.held_out.disturbed_a_day:.2g}",
            f"{each.held_out.unloads_a_day:.3g}",
            f"{each.measures['max_over_mean']:.3g}",
            f"{each.measures['overloaded_s']:.4g}",
            f"{each.measures['flaps']:.3g}",
            f"{each.measures['wrong_placements']:.3g}",
            f"{each.choosing.cost:.3g}",
        ]
        for _, each in rows
    ]
    titles = ("cost", "regret %", "disturbed a day", "unloads a day", "max / mean", "overloaded s", "flaps", "wrong")
    columns = [Column(""), Column("configuration", Kind.SENTENCE)]
    columns += [Column(title, Kind.FIGURE) for title in (*titles, "cost when choosing")]
    names = [[what, f"{each.words}, other settings" if each.settings else each.words] for what, each in rows]
    print_table(columns, [[*name, *row] for name, row in zip(names, figures, strict=True)], plain_width=_WIDTH)
    _print_text("", f"cost = regret in % of a broker + {price:g} × disturbances of an average client a day")


def print_differences(advice: Advice) -> None:
    scale = {each.title: 100.0 if each.unit == "%" else 1.0 for each in advice.worse}
    print_table(
        [Column("measure"), Column("today", Kind.FIGURE), Column("advised", Kind.FIGURE), Column("unit")],
        [
            [each.title, f"{each.today * scale[each.title]:.4g}", f"{each.advised * scale[each.title]:.4g}", each.unit]
            for each in advice.worse
        ],
        plain_width=_WIDTH,
    )


def print_notches(advice: Advice) -> None:
    columns = [Column("setting"), Column("instead of", Kind.FIGURE)]
    columns += [
        Column(title, Kind.FIGURE)
        for title in ("gain over today when choosing", "noise", "gain on the held-out part", "noise")
    ]
    rows = [
        [
            f"{each.key}={each.value}",
            each.instead_of,
            f"{each.gain.points:+.2g}",
            f"{each.gain.noise:.2g}",
            f"{each.gain_held_out.points:+.2g}",
            f"{each.gain_held_out.noise:.2g}",
            "stays the same" if each.stands else "would differ",
        ]
        for each in advice.sensitivity
    ]
    print_table([*columns, Column("the verdict")], rows, plain_width=_WIDTH)


def print_observed(advice: Advice) -> None:
    print_table(
        [Column(""), Column("recorded", Kind.FIGURE), Column("replayed", Kind.FIGURE)],
        [[each.title, f"{each.recorded:.4g}", f"{each.replayed:.4g}"] for each in advice.observed],
        plain_width=_WIDTH,
    )


def _print_title(text: str) -> None:
    click.echo()
    click.echo(click.style(text, bold=True))


def _print_text(start: str, text: str, indent: int | None = None) -> None:
    """Print `start` and `text`, wrapped to the width of the terminal. The second and later lines are indented by
    `indent` blanks; None: by the length of `start`. A word that is longer than a line is not broken.
    """
    lines = textwrap.wrap(
        printable(" ".join(text.split())),
        max(40, output_width(_WIDTH)),
        initial_indent=start,
        subsequent_indent=" " * (len(start) if indent is None else indent),
        break_long_words=False,
        break_on_hyphens=False,
    )
    click.echo("\n".join(lines))
