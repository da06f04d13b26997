"""The state of a balancer as numbers for Prometheus, at http://127.0.0.1:PORT/metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from pulsar_barycenter.balancer.judging.scoring import Score
from pulsar_barycenter.balancer.judging.watchdog import Cause, Watch, Watched
from pulsar_barycenter.balancer.options import Mode

_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAX_BODY_BYTES: Final = 16 << 10
_PREFIX: Final = "barycenter_balance"


@dataclass(slots=True)
class Numbers:
    """The values that the balancer exports as metrics; each round updates them. Times are in seconds, usages are
    fractions of a broker. `needed` is a complete metric in Prometheus's text format: the number of brokers that the
    load needs; "" if it is not known. `client_errors` is how many errors clients get a minute; None if it is not known.
    """

    mode: Mode
    rounds: int = 0
    failed_rounds: int = 0
    last_round_s: float = 0.0
    brokers: int = 0
    view_age_s: float = 0.0
    is_lease_held: bool = False
    above_mean: dict[str, float] = field(default_factory=dict)
    client_errors: float | None = None
    carried: dict[str, int] = field(default_factory=lambda: {"served": 0, "failed": 0})
    splits: dict[str, int] = field(default_factory=lambda: {"split": 0, "failed": 0})
    needed: str = ""
    score: Score = field(default_factory=Score)
    watch: Watch = field(default_factory=Watch)


def rendered(numbers: Numbers) -> str:
    """Return the metrics in Prometheus's text format."""
    watch, score = numbers.watch, numbers.score
    may_act = numbers.mode.moves and numbers.is_lease_held and watch.may_act
    groups = (
        _group(
            "rounds_total",
            "counter",
            "Rounds.",
            {'result="done"': numbers.rounds, 'result="failed"': numbers.failed_rounds},
        ),
        _group(
            "last_round_timestamp_seconds",
            "gauge",
            "When the last round that did not fail read the loads.",
            {"": numbers.last_round_s},
        ),
        _group("brokers", "gauge", "Brokers whose report is current.", {"": numbers.brokers}),
        _group("view_age_seconds", "gauge", "The age of the oldest load of a broker.", {"": numbers.view_age_s}),
        _group("lease_held", "gauge", "1 while this process holds the lease.", {"": int(numbers.is_lease_held)}),
        _group("may_act", "gauge", "1 while moves may begin.", {"": int(may_act)}),
        _group(
            "paused",
            "gauge",
            "1 while the cause pauses the balancer.",
            {f'cause="{cause}"': int(cause in watch.reasons) for cause in Cause},
        ),
        _group(
            "handed_back",
            "gauge",
            "1 once it handed back to the cluster.",
            {"": int(watch.state is Watched.HANDED_BACK)},
        ),
        _group(
            "usage_above_mean",
            "gauge",
            "How far the fullest broker's usage is above the mean.",
            {f'side="{side}"': value for side, value in numbers.above_mean.items()},
        ),
        _group(
            "moves_total",
            "counter",
            "Moves, as the cluster made them and as this program would.",
            {'side="cluster"': score.cluster.moves, 'side="ours"': score.ours.moves},
        ),
        _group(
            "carried_out_total",
            "counter",
            "Moves that this process carried out.",
            {f'result="{result}"': count for result, count in numbers.carried.items()},
        ),
    )
    splits = _group(
        "splits_total",
        "counter",
        "Bundles that this process split, or could not split.",
        {f'result="{result}"': count for result, count in numbers.splits.items()},
    )
    errors = "" if numbers.client_errors is None else _client_errors(numbers.client_errors)
    return "".join((*groups, splits, errors, numbers.needed))


def _client_errors(per_minute: float) -> str:
    text = "Errors of clients a minute, while moves are judged by them."
    return _group("client_errors_per_minute", "gauge", text, {"": per_minute})


def _group(name: str, kind: str, text: str, values: dict[str, float]) -> str:
    full = f"{_PREFIX}_{name}"
    lines = [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
    lines += [f"{full}{{{labels}}} {value:g}" if labels else f"{full} {value!r}" for labels, value in values.items()]
    return "\n".join(lines) + "\n"


class MetricsServer:
    """Serves the metrics on a port of 127.0.0.1, together with the routes that the function `add` adds; with port 0
    there is no server.
    """

    def __init__(self, numbers: Numbers, port: int, add: Callable[[web.Application], None]) -> None:
        self._numbers = numbers
        self._add = add
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Open the port and serve the metrics.

        Raises:
            OSError: the port cannot be used.
        """
        if not self._port:
            return
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_get("/metrics", self._answer)
        self._add(app)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def close(self) -> None:
        """Close the port. Idempotent."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.Response(body=rendered(self._numbers).encode(), headers={"Content-Type": _TYPE})
