"""The output of `balance-bench`: a table for each scenario on the terminal, and a page with all scenarios."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import click

from pulsar_barycenter.lab.benches.front import BANDS, not_dominated
from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.scenario import Case, Expected
from pulsar_barycenter.terminal.tables import Column, Kind, print_table

Figures: TypeAlias = Mapping[str, float]
"""The medians over the seeds, by the names of `Measures`."""


@dataclass(frozen=True, slots=True)
class Table:
    """The results of a scenario: `figures` has the medians of the measures for each strategy, `bands` those of
    LeastDisturbance for each value of its band.
    """

    case: Case
    figures: Mapping[str, Figures]
    bands: Mapping[str, Figures]


_COLUMNS: Final = (
    ("regret", "regret %", 100.0),
    ("area", "area usage h", 1.0),
    ("max_over_mean", "max / mean", 1.0),
    ("overloaded_s", "overloaded min", 1 / 60),
    ("even_after_s", "even after min", 1 / 60),
    ("unloads", "unloads", 1.0),
    ("assignments", "assigned", 1.0),
    ("splits", "splits", 1.0),
    ("flaps", "flaps", 1.0),
    ("wrong_placements", "wrong", 1.0),
    ("sessions_disturbed", "sessions", 1.0),
    ("unserved_topic_s", "without service topic s", 1.0),
)


_COLUMN_OF: Final = {name: (title, factor) for name, title, factor in _COLUMNS}


def _text(figures: Figures, name: str, factor: float) -> str:
    return _figure(figures[name] * factor)


def _figure(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.4g}"


def expectation_in_words(expected: Expected, of: Mapping[str, Figures]) -> str:
    """Return an expectation as a sentence: the measure with the title and unit of its column, the measured value, the
    expected value, and the reason why it is expected.

    `of` has the medians of the measures of each strategy that was run. If the expectation is about several strategies,
    the sentence has the least and the greatest measured value.
    """
    title, factor = _COLUMN_OF[expected.figure]
    measured = sorted(of[name][expected.figure] * factor for name in expected.strategies(of))
    limit = _figure(expected.value * factor)
    if expected.than:
        limit = f"{f'{expected.value:g} × ' if expected.value != 1 else ''}that of {expected.than}"
    if expected.than in of:
        limit += f" ({_text(of[expected.than], expected.figure, factor)})"
    found = " to ".join(dict.fromkeys(map(_figure, (measured[0], measured[-1])))) if measured else "not measured"
    return f"{title} of {expected.strategy} is {found}; expected {expected.relation} {limit}: {expected.why}"


def print_table_of(table: Table) -> None:
    """Print the results of a scenario, and for each expectation whether it is met."""
    click.echo(f"\n{table.case.name}: {table.case.about}")
    columns = [Column("strategy"), *(Column(title, Kind.FIGURE) for _, title, _ in _COLUMNS)]
    rows = [
        [name, *(_text(figures, each, factor) for each, _, factor in _COLUMNS)]
        for name, figures in table.figures.items()
    ]
    print_table(columns, rows, plain_width=200)
    for expected in table.case.expected:
        verdict = "as expected" if expected.holds(table.figures) else "NOT AS EXPECTED"
        click.echo(f"{verdict}: {expectation_in_words(expected, table.figures)}")


def page(tables: Sequence[Table], strategies: Sequence[str], seeds: str, *, has_traces: bool = False) -> str:
    """Return the page with the results of all scenarios in Markdown. `seeds` is the option `--seeds` as text; with
    `has_traces` a scenario of CSV traces is among them.
    """
    command = f"barycenter balance-bench --seeds {seeds}{' --trace TRACES' * has_traces} --out docs/balance-bench.md"
    words = [
        "# balance-bench: every strategy in every scenario",
        "",
        f"Made by `{command}`; do not edit by hand.",
        "Values are medians over the seeds, with the defaults of each strategy and the settings of its scenario;",
        "[measures](measures.md) defines them, and for each of them less is better. A new scenario is one file in",
        "`src/pulsar_barycenter/replay/scenarios/`. In all scenarios",
        "`loadBalancerDistributeBundlesEvenlyEnabled` is off, since it leaves a placement strategy only one candidate",
        "on a small cluster. Bundles are split only in scenarios about splits.",
        "",
        "## Regret in % of a broker / unloads",
        "",
        _row(["scenario", *(name.replace("+", " + ") for name in strategies)]),
        _row(["---"] * (len(strategies) + 1)),
    ]
    words += [
        _row([f"[{table.case.name}](#{table.case.name})", *map(_both, table.figures.values())]) for table in tables
    ]
    words += ["", *(f"- {each.name}: {each.about}; greedy, and no leader can do this." for each in REFERENCES.values())]
    if all(table.bands for table in tables):
        words += _front(tables)
    for table in tables:
        words += ["", f"## {table.case.name}", "", table.case.about, ""]
        words += [_row(["strategy", *(title for _, title, _ in _COLUMNS)]), _row(["---"] * (len(_COLUMNS) + 1))]
        for name, figures in table.figures.items():
            words.append(_row([name, *(_text(figures, each, factor) for each, _, factor in _COLUMNS)]))
        words.append("")
        words += [
            f"- {'As expected' if expected.holds(table.figures) else '**Not as expected**'}:"
            f" {expectation_in_words(expected, table.figures)}."
            for expected in table.case.expected
        ]
    return "\n".join(words) + "\n"


def _front(tables: Sequence[Table]) -> list[str]:
    words = [
        "",
        "## LeastDisturbance by its band",
        "",
        "The same two values for several bands, in percent of a broker. A band dominates a strategy if it has no more",
        "regret and no more unloads, and less of one of them. The last two columns have the strategies that no band",
        "dominates.",
        "",
        _row(["scenario", *(f"{band} %" for band in BANDS), "equal to a band", "better than each band in one value"]),
        _row(["---"] * (len(BANDS) + 3)),
    ]
    for table in tables:
        equal, better = not_dominated(list(table.bands.values()), table.figures)
        told = [f"{name.partition('+')[0]} {_both(table.figures[name])}" for name in better]
        same = ", ".join(name.partition("+")[0] for name in equal)
        words.append(_row([table.case.name, *map(_both, table.bands.values()), same, ", ".join(told)]))
    return words


def _both(figures: Figures) -> str:
    return f"{figures['regret'] * 100:.1f} / {figures['unloads']:.0f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
