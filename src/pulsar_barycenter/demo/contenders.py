"""The strategies of a demo's cluster: LeastDisturbance and, for a comparison, Pulsar's default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.config.broker_config import BrokerConfig

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"
SPLIT_UNLOAD_KEY: Final = "loadBalancerAutoUnloadSplitBundlesEnabled"


@dataclass(frozen=True, slots=True)
class Contender:
    """A strategy of the demo: the keys of broker.conf that select it, a `name` for folders, and a `title` for pages."""

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
"""The parts of a split bundle stay on their broker until a round moves them. If they are unloaded at once, as by
Pulsar's default, the parts of the hottest bundle change their broker with each of its splits.

Rounds are fourteen times as frequent as by default, and the limit of moves in an hour is fourteen times as high.
Patience: at the usual speed-up, a day of load takes 60 s. With a patience of 36 s, the daily changes of load move no
bundle; with 15 s they do. An empty broker that joins still gets bundles in the first round.
"""


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
"""The strategies of a cluster whose broker.conf has none of these keys."""
