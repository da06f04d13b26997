"""`python -m benchmarks balance_days`: how much of the possible gain each strategy reaches, over simulated days.

    python -m benchmarks balance_days [--half held-out] [--seeds 2] [--after 0] [--hours 24] [--days NAME ...]
        [--strategies NAME ...] [--trace PATH ...] [--reports KEY=SHARE ...] [--rows] [--processes 1]

Every day is synthetic, generated from its name and a seed: brokers are at 45 % on average, and at the start bundles are
distributed evenly by the load of the first hour. *Closed* is the share of the regret (`replay.measures`) of doing
nothing that a strategy saves, of what the oracle saves: `(nothing - strategy) / (nothing - oracle)`. The oracle knows
the next hour and makes 20 moves an hour. A strategy can be better than it, because it is greedy. The days without
anything to gain (`noise`, `pauses`) have no share; unloads and flaps count. *Unloads* are for 24 hours.

Seeds are in two halves: `tuning` has the odd numbers, for finding settings, and `held-out` the even ones, for
reporting. `--after 2` leaves out the first two of the half, for a report on seeds whose results were not seen before.

`--trace` adds a day of CSV traces, as of `balance-bench`. A strategy is written as for `balance-bench`: NAME,
NAME+PLACEMENT or a load manager, followed by key=value. `extensible:NAME` is a strategy of the modular load manager
that the extensible one sheds by.

`--reports late=0.2 lost=0.1 failed=0.1 doubled=0.1 minutes=5` says how reports reach the leader (`replay.delivery`):
which share of them is late, lost, failed or arrives twice, and by how many minutes at most. The oracle and the greedy
ones need no reports.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

import numpy as np

from benchmarks.machine import print_table
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.lab.benches.bench import traced_cases
from pulsar_barycenter.lab.processes import pool_of
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.load.strategies import SHEDDING_KEY
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.delivery import PERFECT, Delivery
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.events import BrokerAdded, BrokerCrashed, Event
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.measures import Measures, measure
from pulsar_barycenter.replay.references import OF_DAYS
from pulsar_barycenter.replay.scenario import (
    COMMON,
    NONE,
    OURS,
    Setup,
    balanced,
    minutes,
    of_rates,
    rate_of_usage,
)
from pulsar_barycenter.replay.simulator import Cluster, replay
from pulsar_barycenter.replay.synthetic.demand import broker_names
from pulsar_barycenter.replay.synthetic.shapes import Distribution, daily_swing, drawn_sizes, drift

USAGE: Final = 0.45
ORACLE: Final = "oracle"
HALVES: Final = {"tuning": 1, "held-out": 2}
"""The first seed of each half; the next ones are two apart."""
COMPARED: Final = (
    "ThresholdShedder+LeastLongTermMessageRate",
    "UniformLoadShedder+LeastLongTermMessageRate",
    "AvgShedder",
    "greedy-mean",
    "greedy-newest",
    OURS,
    f"extensible:{OURS}",
)
QUIET: Final = ("noise", "pauses")
_EXTENSIBLE: Final = "extensible:"


class Load(NamedTuple):
    """How many brokers and bundles, how sizes spread, and a factor for each minute (row) and bundle."""

    brokers: int
    bundles: int
    sizes: Distribution
    factors: Callable[[np.random.Generator, int, int], Floats]
    events: tuple[Event, ...] = ()
    cores: tuple[float, ...] = (8.0,)


# ---- how load changes: a factor for each minute and bundle ----


def noise(rng: np.random.Generator, steps: int, bundles: int, deviation: float = 0.1) -> Floats:
    found: Floats = rng.lognormal(0.0, deviation, (steps, bundles))
    return found


def swing(rng: np.random.Generator, steps: int, bundles: int) -> Floats:
    """Return the swing of a day, at a phase of each bundle's own."""
    at_s = np.arange(steps, dtype=np.float64)[:, None] * 60.0
    found: Floats = daily_swing(at_s, 0.6, rng.uniform(0, 2 * np.pi, bundles))
    return found


def ordinary(rng: np.random.Generator, steps: int, bundles: int) -> Floats:
    return swing(rng, steps, bundles) * drift(rng, steps, bundles) * noise(rng, steps, bundles)


def bursty(rng: np.random.Generator, steps: int, bundles: int) -> Floats:
    """Return load in which a bundle has a few bursts a day, of 3 to 10 times its load, for 5 to 60 minutes."""
    found = ordinary(rng, steps, bundles)
    for bundle in range(bundles):
        for _ in range(rng.poisson(4 * steps / 1_440)):
            first, length = rng.integers(0, steps), rng.integers(5, 60)
            found[first : first + length, bundle] *= rng.uniform(3, 10)
    return found


def on_and_off(rng: np.random.Generator, steps: int, bundles: int) -> Floats:
    """Return load of which a third is there for one to four hours, and away for as long."""
    found = ordinary(rng, steps, bundles)
    at = np.arange(steps)
    for bundle in np.flatnonzero(rng.random(bundles) < 1 / 3).tolist():
        period, first = rng.uniform(60, 240), rng.uniform(0, 240)
        found[:, bundle] *= np.where(((at + first) // period) % 2 == 0, 1.8, 0.1)
    return found


def quiet(rng: np.random.Generator, steps: int, bundles: int) -> Floats:
    return noise(rng, steps, bundles, 0.2)


def pauses(rng: np.random.Generator, steps: int, bundles: int) -> Floats:
    """Return load in which half of the bundles pause every other minute."""
    found = noise(rng, steps, bundles, 0.05)
    found[1::2, rng.random(bundles) < 0.5] *= 0.3
    return found


_LOST: Final = broker_names(10)[3]
_NEW: Final = "broker-0011:8080"
DAYS: Final = {
    "ordinary": Load(10, 200, Distribution.LOGNORMAL, ordinary),
    "fifty": Load(50, 600, Distribution.LOGNORMAL, ordinary),
    "bursty": Load(10, 300, Distribution.LOGNORMAL, bursty),
    "many": Load(10, 1_000, Distribution.LOGNORMAL, bursty),
    "lost": Load(
        10,
        200,
        Distribution.LOGNORMAL,
        ordinary,
        (BrokerCrashed(minutes(180), _LOST), BrokerAdded(minutes(420), _LOST)),
    ),
    "joins": Load(10, 200, Distribution.LOGNORMAL, ordinary, (BrokerAdded(minutes(240), _NEW),)),
    "on-and-off": Load(10, 300, Distribution.LOGNORMAL, on_and_off),
    "skew": Load(10, 300, Distribution.ZIPF, ordinary),
    "unlike": Load(10, 200, Distribution.LOGNORMAL, ordinary, cores=(4.0, 8.0, 16.0)),
    "noise": Load(10, 200, Distribution.LOGNORMAL, quiet),
    "pauses": Load(10, 200, Distribution.LOGNORMAL, pauses),
}


def setup(load: Load, name: str, seed: int, steps: int) -> Setup:
    """Return the day of a seed: no bundle has more than a fifth of a broker, and brokers are at `USAGE` on average."""
    rng = np.random.default_rng([seed, *name.encode()])
    brokers = broker_names(load.brokers)
    cores = {broker: load.cores[place % len(load.cores)] for place, broker in enumerate(brokers)}
    size = drawn_sizes(load.sizes, load.bundles, rng)
    for _ in range(3):
        size = np.minimum(size / size.sum(), 0.2 / load.brokers)
    factors = load.factors(rng, steps, load.bundles)
    rates = factors * (size / size.sum())
    rates *= sum(rate_of_usage(USAGE, each) for each in cores.values()) / float(rates.sum(axis=1).mean())
    owners = balanced(rates[:60].mean(axis=0), brokers, cores)
    cluster = Cluster({broker: Capacity(cores=cores[broker]) for broker in brokers})
    return Setup(of_rates(rates, owners), cluster, load.events)


# ---- runs ----


def settings(strategy: str) -> dict[str, str]:
    """Return the keys of a strategy: NAME, NAME+PLACEMENT, a load manager or extensible:NAME, then key=value."""
    name, *sets = strategy.split()
    if name.startswith(_EXTENSIBLE):
        found = settings_of(str(ManagerKind.EXTENSIBLE), {}) | {SHEDDING_KEY: name.removeprefix(_EXTENSIBLE)}
    else:
        found = settings_of(OURS if name in OF_DAYS else name, {})
    return found | dict(each.split("=", 1) for each in sets)


class Job(NamedTuple):
    """A day (a name of DAYS, or "traces"), a strategy, a seed, the hours, how reports arrive, and files of traces."""

    day: str
    strategy: str
    seed: int
    hours: float
    delivery: Delivery = PERFECT
    traces: tuple[Path, ...] = ()


def run(job: Job) -> Measures:
    """Return the measures of a strategy over a day."""
    steps = round(60 * job.hours)
    if job.traces:
        made = traced_cases(job.traces)[0].make(job.seed)
        made = Setup(made.demand.period(0, min(steps, made.demand.steps)), made.cluster, made.events, made.settings)
    else:
        made = setup(DAYS[job.day], job.day, job.seed, steps)
    config = with_overrides(BrokerConfig(), {**COMMON, **settings(job.strategy), **made.settings})
    reference = OF_DAYS.get(job.strategy)
    outcome = replay(
        made.demand,
        made.cluster,
        config,
        made.events,
        seed=job.seed,
        reference=reference,
        delivery=job.delivery,
    )
    return measure(outcome)


def delivery_of(sets: Sequence[str]) -> Delivery:
    """Return the delivery of KEY=VALUE texts: late, lost, failed and doubled are shares, minutes is how late at most.

    Raises:
        ReplayInputError: a text is not one of these.
    """
    found: dict[str, float] = {}
    for each in sets:
        key, _, value = each.partition("=")
        try:
            found[key] = float(value)
        except ValueError:
            raise ReplayInputError(f"--reports {each}: write KEY=NUMBER") from None
    minutes_late = found.pop("minutes", 5.0)
    unknown = found.keys() - {"late", "lost", "failed", "doubled"}
    if unknown:
        raise ReplayInputError(f"--reports {min(unknown)}: there are late, lost, failed, doubled and minutes")
    return Delivery(**found, longest_ms=round(minutes_late * 60_000))


def closed(nothing: Sequence[Measures], strategy: Sequence[Measures], oracle: Sequence[Measures]) -> float:
    """Return the share of the gap between doing nothing and the oracle that a strategy closes, by sums over seeds."""
    sums = [sum(each.regret for each in runs) for runs in (nothing, strategy, oracle)]
    return (sums[0] - sums[1]) / (sums[0] - sums[2]) if sums[0] > sums[2] else float("nan")


def main() -> None:
    ask = argparse.ArgumentParser("balance_days", description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--half", choices=HALVES, default="held-out", help="which seeds")
    ask.add_argument("--seeds", type=int, default=2, help="how many of them")
    ask.add_argument("--after", type=int, default=0, help="how many seeds of the half to leave out before them")
    ask.add_argument("--hours", type=float, default=24.0, help="how much of each day")
    ask.add_argument("--days", nargs="+", choices=DAYS, default=list(DAYS))
    ask.add_argument("--strategies", nargs="+", default=list(COMPARED))
    ask.add_argument("--trace", nargs="+", type=Path, default=[], help="CSV files of traces, or folders of them")
    ask.add_argument(
        "--reports",
        nargs="+",
        default=[],
        metavar="KEY=NUMBER",
        help="how reports arrive: the shares late=, lost=, failed= and doubled=; late by at most minutes=",
    )
    ask.add_argument("--rows", action="store_true", help="a row for each day, too")
    ask.add_argument("--processes", type=int, default=1)
    asked = ask.parse_args()
    if asked.seeds < 1 or asked.after < 0 or not 1 <= asked.hours <= 24:
        sys.exit("give at least one seed, none or more to leave out, and 1 to 24 hours")
    try:
        delivery = delivery_of(asked.reports)
    except ReplayInputError as error:
        sys.exit(str(error))
    first = HALVES[asked.half] + 2 * asked.after
    seeds = range(first, first + 2 * asked.seeds, 2)
    days = dict.fromkeys(asked.days, ()) | ({"traces": tuple(asked.trace)} if asked.trace else {})
    names = (NONE, ORACLE, *asked.strategies)
    jobs = [
        Job(day, name, seed, asked.hours, delivery, traces)
        for day, traces in days.items()
        for name in names
        for seed in seeds
    ]
    if asked.processes > 1:
        with pool_of(asked.processes) as pool:
            measured = list(pool.map(run, jobs))
    else:
        measured = list(map(run, jobs))
    found: dict[tuple[str, str], list[Measures]] = {}
    for job, measures in zip(jobs, measured, strict=True):
        found.setdefault((job.day, job.strategy), []).append(measures)
    a_day = 24 / asked.hours
    for_all = []
    for name in names[1:]:
        rows = []
        for day in days:
            runs = found[day, name]
            share = closed(found[day, NONE], runs, found[day, ORACLE]) if day not in QUIET else float("nan")
            unloads, flaps = (
                a_day * mean(each.unloads for each in runs),
                a_day * mean(each.flaps for each in runs),
            )
            rows.append((day, share, unloads, flaps, 100 * mean(each.regret for each in runs)))
        if asked.rows:
            print_table(
                name,
                ("day", "closed", "unloads a day", "flaps", "regret %"),
                [(day, _text(share), f"{un:.0f}", f"{fl:.0f}", f"{regret:.2f}") for day, share, un, fl, regret in rows],
            )
        shares = [row[1] for row in rows if row[0] not in QUIET]
        loud = [row for row in rows if row[0] not in QUIET] or rows
        still = {row[0]: f"{row[2]:.0f}" for row in rows if row[0] in QUIET}
        for_all.append(
            (
                name,
                _text(mean(shares)) if shares else "-",
                f"{mean(row[2] for row in loud):.0f}",
                f"{sum(row[3] for row in rows):.0f}",
                *(still.get(day, "-") for day in QUIET),
            )
        )
    title = f"means over the days, seeds {', '.join(map(str, seeds))} ({asked.half}), {asked.hours:g} h"
    print_table(title, ("strategy", "closed", "unloads a day", "flaps, all days", *QUIET), for_all)


def _text(share: float) -> str:
    return "-" if share != share else f"{share:.2f}"


if __name__ == "__main__":
    main()
