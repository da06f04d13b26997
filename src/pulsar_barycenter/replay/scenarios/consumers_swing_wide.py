"""All consumers of a broker stop for a minute and run for a minute, for ever."""

from pulsar_barycenter.replay.scenario import Case, Expected, Setup
from pulsar_barycenter.replay.scenarios.consumers_on_and_off import waves


def make(seed: int) -> Setup:
    return waves(seed, 0.5, 1.0)


CASE = Case(
    "consumers-swing-wide",
    "Four brokers at 50 %, evenly; on one of them all consumers read for a minute and pause for a minute, which takes"
    " it up and down by 25 points.",
    make,
    (
        Expected(
            "AvgShedder",
            "unloads",
            ">=",
            1,
            "hits belong to a broker, on whichever side of the gap it is: up and down by turns counts as eight rounds",
        ),
        Expected(
            "UniformLoadShedder+LeastLongTermMessageRate",
            "unloads",
            ">=",
            10,
            "a threshold on rates of one moment follows the wave",
        ),
        Expected("LeastDisturbance", "unloads", "==", 0, "what comes and goes never settles"),
    ),
)
