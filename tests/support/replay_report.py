"""Synthetic runs of a replay with everything that its report shows."""

from collections.abc import Sequence

import numpy as np

from pulsar_barycenter.lab.running import RunFile
from pulsar_barycenter.lab.series import series_of
from pulsar_barycenter.replay.grid import Scenario
from pulsar_barycenter.replay.measures import measure
from pulsar_barycenter.replay.outcome import BundleRates, Divided, Moved, Outcome
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names

MINUTE_MS = 60_000
ODD_NAME = "</script><script>alert(1)</script><!--<b onclick=x>'\"&"
SPACE = "public/orders"
WHOLE, LOWER, UPPER = (
    f"{SPACE}/{each}" for each in ("0x40000000_0x80000000", "0x40000000_0x60000000", "0x60000000_0x80000000")
)
LOW, HIGH = f"{SPACE}/0x00000000_0x40000000", f"{SPACE}/0x80000000_0xffffffff"
_WHY = (
    "{bundle}: the heaviest that fits [Test]; because {broker}: its usage is high (usage 90 % >= limit 85 %, more 1 >="
    " 0): seen twice [Test]; settings: x"
)


def run_of(
    strategy: str = "AvgShedder",
    *,
    brokers: int = 5,
    steps: int = 120,
    seed: int = 0,
    base: float = 0.6,
    spread: float = 0.2,
    settings: dict[str, str] | None = None,
    moving: bool = True,
    names: Sequence[str] = (),
    why: str = _WHY,
) -> RunFile:
    """Return a run in which HIGH goes from the first broker to the second, the third, and back, WHOLE is split at
    minute 10 and its upper part is placed; the last broker is gone from minute 60 to 80, and LOW with it."""
    rng = np.random.default_rng([seed, brokers])
    usage = base + spread * (rng.random((steps, brokers)) + 0.5 * (np.arange(brokers) == 0))
    live = np.ones((steps, brokers), bool)
    live[60:80, -1] = not moving
    first, second, third, last = (names := tuple(names) or broker_names(brokers))[:3] + names[-1:]

    def moved(minute: int, kind: str, bundle: str, source: str, destination: str) -> Moved:
        return Moved(
            at_ms=START_MS + minute * MINUTE_MS,
            kind=kind,
            bundle=bundle,
            source=source,
            destination=destination,
            rate=1_000.0 + minute,
            topics=2,
            sessions=4,
            gap_ms=1_000,
            misplaced=minute == 50,
            why=why.format(bundle=bundle, broker=source) if why is _WHY else why,
        )

    moves = (
        moved(0, "assign", LOW, "", last),
        moved(5, "unload", HIGH, first, second),
        moved(10, "split", UPPER, first, second),
        moved(20, "unload", HIGH, second, third),
        moved(50, "unload", HIGH, third, first),
        moved(60, "assign", LOW, last, second),
    )
    splits = (
        Divided(at_ms=START_MS + 10 * MINUTE_MS, bundle=WHOLE, broker=first, parts=(LOWER, UPPER), why="too large"),
    )
    rates = np.full((12, 5), 500.0)
    rates[:2, 3:] = np.nan
    rates[2:, 0] = np.nan
    outcome = Outcome(
        at_ms=START_MS + np.arange(steps) * MINUTE_MS,
        step_ms=MINUTE_MS,
        brokers=names,
        live=live,
        usage=usage,
        cpu=usage,
        rate=usage,
        throughput=usage,
        unserved=np.zeros(steps),
        floor=usage.mean(axis=1),
        moves=moves if moving else (),
        splits=splits if moving else (),
        unserved_topic_s=12.0 if moving else 0.0,
        event_ms=(START_MS + 60 * MINUTE_MS, START_MS + 80 * MINUTE_MS) if moving else (),
        bundles=5,
        carried=BundleRates((WHOLE, LOW, HIGH, LOWER, UPPER), tuple(range(0, steps, -(-steps // 12))), rates)
        if moving
        else BundleRates(),
    )
    return RunFile(
        scenario=Scenario(strategy=strategy, settings=settings or {}, seed=seed, period=(0, steps)),
        measures=measure(outcome),
        moves=outcome.moves,
        splits=outcome.splits,
        series=series_of(outcome),
    )


def few_runs(brokers: int = 5) -> list[RunFile]:
    """Return runs of three strategies, one of them with two settings, and of the first two seeds."""
    key = "loadBalancerAvgShedderLowThreshold"
    return [
        *(run_of("AvgShedder", brokers=brokers, seed=seed, settings={key: "10"}, spread=0.1) for seed in (1, 2)),
        run_of("AvgShedder", brokers=brokers, seed=1, settings={key: "15"}, spread=0.15),
        run_of("ThresholdShedder", brokers=brokers, seed=1, settings={key: "10"}, spread=0.4),
        run_of("no-op", brokers=brokers, seed=1, settings={key: "10"}, spread=0.6, moving=False),
    ]
