"""The loads of brokers over time, as far as pages asked for pictures: what a page shows that was just opened.

Bounded by MOST_FIGURES, however many brokers there are: of more brokers fewer moments are kept.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from pulsar_barycenter.broker.rest.dashboard.overview import BrokerShare
from pulsar_barycenter.load.reports.load_over_time import BrokerLoad, Moment

MOST_MOMENTS: Final = 400
MOST_FIGURES: Final = 40_000
APART_MS: Final = 5_000


class LoadHistory:
    def __init__(self) -> None:
        self._moments: deque[Moment] = deque()
        self._figures = 0

    def add(self, at_ms: int, shares: Iterable[BrokerShare]) -> None:
        """Keep the loads of a moment, unless the last is less than APART_MS ago; forget the oldest beyond bounds."""
        if self._moments and at_ms - self._moments[-1].at < APART_MS:
            return
        loads = tuple(
            BrokerLoad(
                each.broker, max(each.usage.values(), default=0.0), each.msg_rate, each.msg_throughput, each.bundles
            )
            for each in shares
        )
        self._moments.append(Moment(at_ms, loads))
        self._figures += len(loads)
        while len(self._moments) > MOST_MOMENTS or (self._figures > MOST_FIGURES and len(self._moments) > 1):
            self._figures -= len(self._moments.popleft().brokers)

    @property
    def moments(self) -> list[Moment]:
        """The moments that are kept, oldest first."""
        return list(self._moments)
