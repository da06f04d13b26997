"""All consumers of a broker alternately pause and read for a minute."""

from pulsar_barycenter.replay.scenario import Case, Expected, Setup
from pulsar_barycenter.replay.scenarios.consumers_on_and_off import waves


def make(seed: int) -> Setup:
    return waves(seed, 0.5, 1.0)


CASE = Case(
    "consumers-swing-wide",
    "Four brokers at 50 % each. On one of them all consumers alternately read and pause for a minute, so"
    " its usage rises and falls by 25 points.",
    make,
    (
        Expected(
            "AvgShedder",
            "unloads",
            ">=",
            1,
            "hits are counted per broker, on either side of the gap: alternating up and down counts as eight rounds",
        ),
        Expected(
            "UniformLoadShedder+LeastLongTermMessageRate",
            "unloads",
            ">=",
            10,
            "a threshold on momentary rates follows the wave",
        ),
        Expected("LeastDisturbance", "unloads", "==", 0, "load that comes and goes never counts as settled"),
    ),
)
