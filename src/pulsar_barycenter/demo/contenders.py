"""By what a demo's cluster balances: our own strategy, and beside it, for a comparison, Pulsar's default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.config.broker_config import BrokerConfig

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"


@dataclass(frozen=True, slots=True)
class Contender:
    """Keys of broker.conf that choose a strategy. `name` is a folder's, `title` for people."""

    name: str
    title: str
    keys: Mapping[str, str] = field(default_factory=dict)


OURS: Final = Contender(
    "LeastDisturbance",
    "LeastDisturbance (ours)",
    {
        SHEDDING_KEY: "LeastDisturbance",
        PLACEMENT_KEY: "LeastDisturbance",
        "barycenterLeastDisturbancePatienceMinutes": "0.6",
    },
)
"""Patience: rounds are fourteen times as often as by default, which makes 50 s of its twelve minutes; at the usual
speed-up a day of load passes in 60 s. With 36 s, half of a day, the swing of a day moves nothing, and with 15 s it did;
a broker that joins empty is filled in the first round all the same."""


def _default() -> Contender:
    config = BrokerConfig()
    shedding, placement = (
        config.load_balancer_load_shedding_strategy.rpartition(".")[2],
        config.load_balancer_load_placement_strategy.rpartition(".")[2],
    )
    return Contender(shedding, f"{shedding} (Pulsar's default)", {SHEDDING_KEY: shedding, PLACEMENT_KEY: placement})


PULSARS_DEFAULT: Final = _default()
"""The strategies that a cluster has whose broker.conf names none."""
