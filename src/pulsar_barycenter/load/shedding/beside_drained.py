"""Shedding in a cluster some of whose brokers are drained.

A shedder would take a drained broker for the least loaded one, for which bundles leave others in vain in each round. So
it decides upon the cluster without them; what it says is told in the rows of the whole cluster, and of the drained
brokers that they are drained.

Worked example: of three brokers at 0 %, 60 % and 62 % the first is drained. A shedder that looks for the largest gap
sees one of 2 %, and moves nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pulsar_barycenter.load.decisions import Refusal, Unload
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.shedding.shedder import Shedder, SheddingPlan, UsageSpread
from pulsar_barycenter.load.snapshot.drained import drained_rows, without_brokers
from pulsar_barycenter.load.snapshot.load_snapshot import Integers, LoadSnapshot
from pulsar_barycenter.load.strategy import Memory


@dataclass(frozen=True)
class PlanBesideDrained:
    """A `SheddingPlan` of `snapshot`, made of `decided`, that of the cluster without drained brokers.

    `brokers` and `bundles` are the rows that the brokers and bundles of `decided` have in `snapshot`.
    """

    decided: SheddingPlan
    snapshot: LoadSnapshot
    brokers: Integers
    bundles: Integers

    @property
    def strategy(self) -> str:
        return self.decided.strategy

    @cached_property
    def rows(self) -> Integers:
        found: Integers = self.bundles[self.decided.rows]
        return found

    @property
    def reason(self) -> Reason:
        return self.decided.reason

    @property
    def usage_spread(self) -> UsageSpread | None:
        return self.decided.usage_spread

    def __len__(self) -> int:
        return len(self.decided)

    def __iter__(self) -> Iterator[Unload]:
        return iter(self.decided)

    def broker_reason(self, broker: int) -> Reason:
        """Why the broker in that row sheds, or does not; a drained one is not asked."""
        place = int(np.searchsorted(self.brokers, broker))
        if place < len(self.brokers) and self.brokers[place] == broker:
            return self.decided.broker_reason(place)
        name = self.snapshot.brokers.names[broker]
        return Reason(code=Code.DRAINED, strategy=self.strategy, subject=name, settings=(DRAINED_KEY,))

    def destinations(self) -> Mapping[str, str]:
        return self.decided.destinations()

    def refusals(self) -> Iterator[Refusal]:
        return self.decided.refusals()


def shed(shedder: Shedder[Memory], snapshot: LoadSnapshot, memory: Memory) -> tuple[SheddingPlan, Memory]:
    """Return what a shedder decides upon a snapshot, of whose drained brokers it does not know, and what it remembers.

    Raises:
        ValueError: the snapshot lacks what the shedder needs.
    """
    gone = drained_rows(snapshot)
    if gone is None:
        return shedder.decide(snapshot, memory)
    part, brokers, bundles = without_brokers(snapshot, gone)
    decided, memory = shedder.decide(part, memory)
    return PlanBesideDrained(decided, snapshot, brokers, bundles), memory
