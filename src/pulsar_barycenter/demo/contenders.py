"""By what a demo's cluster balances: our own strategy, and beside it, for a comparison, Pulsar's default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.config.broker_config import BrokerConfig

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"
SPLIT_UNLOAD_KEY: Final = "loadBalancerAutoUnloadSplitBundlesEnabled"


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
        SPLIT_UNLOAD_KEY: "false",
        "barycenterLeastDisturbancePatienceMinutes": "0.6",
        "barycenterLeastDisturbanceMovesPerHour": "420",
    },
)
"""Parts of a split bundle stay where they are until a round moves them: placed anew at once, as by Pulsar's default,
the parts of the hottest bundle changed their broker with each of its splits.

Rounds are fourteen times as often as by default, and so are the moves of an hour. Patience: at the usual speed-up a day
of load passes in 60 s. With 36 s, half of a day, the swing of a day moves nothing, and with 15 s it did; a broker that
joins empty is filled in the first round all the same."""


def _default() -> Contender:
    config = BrokerConfig()
    shedding, placement = (
        config.load_balancer_load_shedding_strategy.rpartition(".")[2],
        config.load_balancer_load_placement_strategy.rpartition(".")[2],
    )
    keys = {
        SHEDDING_KEY: shedding,
        PLACEMENT_KEY: placement,
        SPLIT_UNLOAD_KEY: str(config.load_balancer_auto_unload_split_bundles_enabled).lower(),
    }
    return Contender(shedding, f"{shedding} (Pulsar's default)", keys)


PULSARS_DEFAULT: Final = _default()
"""What a cluster has whose broker.conf names none of these keys."""
