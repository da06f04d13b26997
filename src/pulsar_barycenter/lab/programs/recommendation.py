"""A recommendation for programs and notebooks; `lab.advising` makes it."""

from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path

import msgspec
import pyarrow as pa

from pulsar_barycenter.lab.advising.advise import document, write_advice
from pulsar_barycenter.load.reasons import format_figure
from pulsar_barycenter.replay.advice.changes import commands, fragment
from pulsar_barycenter.replay.advice.document import Advice


@dataclass(frozen=True, repr=False)
class Recommendation:
    """The load manager, strategy and settings that `Load.advise` recommends, and why. docs/advise.md has the rule."""

    _advice: Advice

    def __repr__(self) -> str:
        return f"<Recommendation: {self.sentence}>"

    @property
    def sentence(self) -> str:
        """The recommendation in one sentence."""
        return self._advice.sentence

    @property
    def verdict(self) -> str:
        """The verdict of the recommendation: "change"; "keep" (no configuration is better by more than noise); or
        "unconfirmed" (one is better on the first part of the history, but not on the held-out rest).
        """
        return str(self._advice.verdict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the recommendation does not take into account, for example because the history is too short; one
        sentence for each.
        """
        return tuple(self._advice.warnings)

    @property
    def broker_conf(self) -> str:
        """The lines to put into broker.conf, so that brokers use the recommended settings; comments give the
        reasons.
        """
        return fragment(self._advice)

    @property
    def commands(self) -> str:
        """The text of a shell script that sets the recommended values of dynamic keys on running brokers; its comments
        name the keys that need a restart.
        """
        return commands(self._advice)

    def changes(self) -> pa.Table:
        """Return the keys of broker.conf to change, a row for each: key, today (the present value), advised (the
        recommended value), why, is_dynamic (True: brokers use the new value without a restart).
        """
        rows = [msgspec.structs.asdict(change) for change in self._advice.changes]
        names = {"key": pa.string(), "today": pa.string(), "advised": pa.string(), "why": pa.string()}
        return pa.Table.from_pylist(rows, schema=pa.schema({**names, "is_dynamic": pa.bool_()}))

    def configurations(self) -> pa.Table:
        """Return the configurations that were tried, the cheapest first, with their values on the held-out part of the
        history.

        Columns: title, cost (percentage points of a broker's usage), regret (a fraction of a broker), disturbed_a_day
        (how often all clients are disturbed in a day), unloads_a_day, cost_when_choosing (the cost on the first part,
        on which the configuration was selected).
        """
        rows = [
            {
                "title": each.title,
                **msgspec.structs.asdict(each.held_out),
                "cost_when_choosing": each.choosing.cost,
            }
            for each in sorted(self._advice.configurations, key=lambda each: (each.held_out.cost, each.title))
        ]
        return pa.Table.from_pylist(rows)

    def findings(self) -> pa.Table:
        """Return the problems of the cluster that no balancing can solve, a row for each: kind, sentence (the problem
        as text), remedy (what the operator can do).
        """
        rows = [
            {"kind": str(finding.kind), "sentence": finding.sentence, "remedy": finding.mend}
            for finding in self._advice.findings
        ]
        schema = pa.schema({"kind": pa.string(), "sentence": pa.string(), "remedy": pa.string()})
        return pa.Table.from_pylist(rows, schema=schema)

    def json(self) -> str:
        """Return the content of advice.json: the recommendation, and the values of all configurations from which it
        follows.
        """
        return document(self._advice).decode()

    def write(self, folder: str | PathLike[str]) -> None:
        """Write the files of `barycenter advise --out` into `folder`, which is created if it is missing:
        broker.conf.fragment, commands.sh, advice.json.

        Raises:
            OSError: a file cannot be written.
        """
        write_advice(Path(folder), self._advice)

    def _repr_html_(self) -> str:
        changes = "".join(
            f"<tr><td><code>{escape(change.key)}</code></td><td>{escape(change.today)}</td>"
            f"<td>{escape(change.advised)}</td><td>{escape(change.why)}</td></tr>"
            for change in self._advice.changes
        )
        head = "<tr><th>key</th><th>today</th><th>advised</th><th>why</th></tr>"
        costs = self._advice.today.held_out.cost, self._advice.best.held_out.cost if self._advice.best else None
        compared = f"cost today {format_figure(costs[0], 'points')}"
        if costs[1] is not None:
            compared += f", of the best other configuration {format_figure(costs[1], 'points')}"
        table = f"<table><thead>{head}</thead><tbody>{changes}</tbody></table>" if changes else ""
        return f"<p><strong>{escape(self.sentence)}</strong></p><p>{escape(compared)}</p>{table}"
