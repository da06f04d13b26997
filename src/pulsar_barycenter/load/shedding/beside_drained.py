"""Shedding in a cluster in which some brokers are drained.

To a shedder a drained broker looks like the least loaded one, and it would unload bundles for it in every round, in
vain. So the shedder decides on a snapshot without the drained brokers. Its plan is then translated to the rows of the
whole cluster, and the verdict on a drained broker is that it is drained.

Worked example: three brokers have a usage of 0 %, 60 % and 62 %, and the first is drained. A shedder that compares the
highest with the lowest usage finds a gap of 2 points, and moves nothing.
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
    """The plan of a shedder that was run on the cluster without its drained brokers (`decided`), converted to the rows
    of `snapshot`, which has all brokers.

    `brokers` and `bundles` have, for each row of `decided`, the row of the same broker or bundle in `snapshot`.
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
        """Return why the broker in this row sheds, or does not; drained brokers never shed."""
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
    """Run the shedder on a snapshot without its drained brokers and their bundles. Return its plan, in which rows are
    those of `snapshot`, and its memory for the next round.

    Raises:
        ValueError: the snapshot lacks data that the shedder needs.
    """
    gone = drained_rows(snapshot)
    if gone is None:
        return shedder.decide(snapshot, memory)
    part, brokers, bundles = without_brokers(snapshot, gone)
    decided, memory = shedder.decide(part, memory)
    return PlanBesideDrained(decided, snapshot, brokers, bundles), memory
