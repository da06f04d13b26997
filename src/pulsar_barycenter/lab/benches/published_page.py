"""The results of published experiments: a table for each on the terminal, and a page next to the published values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import click

from pulsar_barycenter.replay.experiments.experiment import FIGURES, Experiment, Observed
from pulsar_barycenter.terminal.tables import Column, Kind, print_table


@dataclass(frozen=True, slots=True)
class ExperimentRuns:
    """A published experiment (`experiment`), and our replays of it: `runs` maps each strategy to its runs, and each run
    is a mapping from measures to values.
    """

    experiment: Experiment
    runs: dict[str, list[dict[str, float]]]

    def here(self, strategy: str, figure: str) -> str:
        """Return the median of the measure `figure` over the runs of a strategy in our replay, as text. If the values
        of the runs differ, the least and the greatest value follow in brackets.
        """
        values = sorted(run[figure] for run in self.runs[strategy])
        found = _text(median(values))
        return found if values[0] == values[-1] else f"{found} ({_text(values[0])} to {_text(values[-1])})"

    def as_published(self, observed: Observed) -> bool:
        """Return whether the median in our replay satisfies the inequality that the experiment states for the published
        value `observed`.
        """
        expected = observed.expected
        medians = {expected.figure: median(run[expected.figure] for run in self.runs[expected.strategy])}
        return expected.holds({expected.strategy: medians})

    @property
    def holds(self) -> bool:
        return all(self.as_published(each) for each in self.experiment.observed)


_BESIDE: Final = ("strategy", "figure", "published", "here", "has to be", "for")


def _beside(told: ExperimentRuns) -> list[list[str]]:
    rows = []
    for each in told.experiment.observed:
        expected = each.expected
        verdict = f"{expected.relation} {expected.value:g}" + ("" if told.as_published(each) else ", and is NOT")
        here = told.here(expected.strategy, expected.figure)
        rows.append([expected.strategy, expected.figure, each.published, here, verdict, expected.why])
    return rows


def print_published(all_told: Sequence[ExperimentRuns]) -> None:
    """Print for each experiment two tables: the published values next to those of our replay, and all measures of our
    replay.
    """
    for told in all_told:
        click.echo(f"\n{told.experiment.name}: {told.experiment.about}")
        print_table([Column(title, Kind.SENTENCE) for title in _BESIDE], _beside(told), plain_width=200)
        columns = [Column("strategy"), *(Column(name, Kind.FIGURE) for name in FIGURES)]
        print_table(columns, _all(told), plain_width=200)


def published_page(all_told: Sequence[ExperimentRuns], seeds: str) -> str:
    """Return the page with the results of all published experiments in Markdown. `seeds` is the option `--seeds` as
    text.
    """
    words = [
        "# Published experiments, replayed",
        "",
        f"Made by `barycenter balance-bench --published --seeds {seeds} --out docs/published-experiments.md`, not by",
        "hand. Others ran these experiments on real clusters. They published loads of brokers and numbers of unloads,",
        "but not the loads of bundles, the sizes of messages, or the hardware. So the sizes of bundles are drawn from",
        "seeds, such that each broker starts with its published load. CPU is a linear function through the published",
        "points. A replay must satisfy an inequality. Settings are those of the experiments, behaviour is that of",
        "Pulsar 4.x. The column *here* has the median over the seeds, and in brackets the least and the greatest.",
        "",
        "| figure | what |",
        "| --- | --- |",
        *(_row([name, about]) for name, about in FIGURES.items()),
    ]
    for told in all_told:
        experiment = told.experiment
        words += ["", f"## {experiment.name}", "", f"{experiment.about} Source: {experiment.source}.", ""]
        words += [_row(_BESIDE), _row(["---"] * len(_BESIDE)), *map(_row, _beside(told)), ""]
        words += [_row(["strategy", *FIGURES]), _row(["---"] * (len(FIGURES) + 1)), *map(_row, _all(told))]
    words += [
        "",
        "## What was left out",
        "",
        "A month of production with one unload operation, and the placement by a hash over a list of brokers, which",
        "Pulsar 5 replaced by a random choice. CPU that did not grow linearly with traffic is a linear function here,",
        "and other processes on the machines of brokers are a factor.",
    ]
    return "\n".join(words) + "\n"


def _all(told: ExperimentRuns) -> list[list[str]]:
    return [
        [strategy, *(_text(median(run[name] for run in runs)) for name in FIGURES)]
        for strategy, runs in told.runs.items()
    ]


def _text(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:.3g}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
