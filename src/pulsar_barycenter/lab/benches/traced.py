"""The scenario of `balance-bench` from CSV traces: two days of real traffic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.inputs.trace_demand import demand_of
from pulsar_barycenter.replay.scenario import Case, Expected, Setup, like_brokers, rate_of_usage
from pulsar_barycenter.replay.traces import Trace

BROKERS: Final = 5
DAYS: Final = 2
USAGE: Final = 0.45
_DAY_MS: Final = 86_400_000
_LONGEST_STEP_MS: Final = 60_000


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that returns the input of a replay for a seed: the load of the traces on two days, scaled so that the
    mean usage of the brokers is `USAGE`. The seed selects the two days among the days that all traces cover.
    """

    traces: tuple[Trace, ...]

    def __call__(self, seed: int) -> Setup:
        step_ms = min(_LONGEST_STEP_MS, self.traces[0].step_ms)
        whole = demand_of(self.traces, brokers=BROKERS, step_ms=step_ms, seed=seed)
        steps = DAYS * _DAY_MS // step_ms
        periods = whole.steps // steps
        if not periods:
            raise ReplayInputError(f"the traces have fewer than {DAYS} days in common; give traces of the same days")
        first = seed % periods * steps
        demand = whole.period(first, first + steps)
        mean = float(demand.rate_in.sum(axis=1).mean())
        if mean <= 0:
            raise ReplayInputError(
                f"all values of the traces are 0 from step {first} to {first + steps}; give other traces"
            )
        return Setup(_scaled(demand, rate_of_usage(USAGE, brokers=BROKERS) / mean), like_brokers(BROKERS))


def _scaled(demand: Demand, factor: float) -> Demand:
    rate, throughput = demand.rate_in * factor, demand.throughput_in * factor
    return Demand(
        demand.start_ms,
        demand.step_ms,
        demand.bundles,
        demand.bundle_of,
        demand.hashes,
        rate,
        rate,
        throughput,
        throughput,
        demand.sessions,
        demand.topics,
        demand.owners,
    )


def traced_case(traces: Sequence[Trace]) -> Case:
    """Return the scenario of `balance-bench` whose load follows these CSV traces.

    Raises:
        ReplayInputError: `traces` is empty.
    """
    if not traces:
        raise ReplayInputError("there are no traces; give CSV files of timestamp,value")
    return Case(
        "real-traces",
        f"{count_of(len(traces), 'trace')} of real traffic, four topics each, over five brokers at 45 % on average;"
        " each seed uses two other days.",
        Traced(tuple(traces)),
        (
            Expected(
                "LeastDisturbance", "regret", "<=", 1, "it uses the load of each single bundle", than="AvgShedder"
            ),
            Expected("LeastDisturbance", "flaps", "==", 0, "a bundle rests for half an hour"),
        ),
    )
