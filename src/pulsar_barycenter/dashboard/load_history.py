"""The loads of brokers over time: one moment for each overview that was made, for pages that were just opened.

The history has at most MOST_FIGURES values, so it reaches back less far if there are more brokers.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from pulsar_barycenter.dashboard.overview import BrokerShare
from pulsar_barycenter.load.reports.load_over_time import BrokerLoad, Moment

MOST_MOMENTS: Final = 400
MOST_FIGURES: Final = 40_000
APART_MS: Final = 5_000


class LoadHistory:
    def __init__(self) -> None:
        self._moments: deque[Moment] = deque()
        self._count = 0

    def add(self, at_ms: int, shares: Iterable[BrokerShare]) -> None:
        """Add the loads of the brokers at the time `at_ms` (epoch ms), unless the last loads that were added are less
        than APART_MS older; drop the oldest loads if there are too many.
        """
        if self._moments and at_ms - self._moments[-1].at < APART_MS:
            return
        loads = tuple(
            BrokerLoad(
                share.broker,
                max(share.usage.values(), default=0.0),
                share.msg_rate,
                share.msg_throughput,
                share.bundles,
            )
            for share in shares
        )
        self._moments.append(Moment(at_ms, loads))
        self._count += len(loads)
        while len(self._moments) > MOST_MOMENTS or (self._count > MOST_FIGURES and len(self._moments) > 1):
            self._count -= len(self._moments.popleft().brokers)

    @property
    def moments(self) -> list[Moment]:
        """The loads that were added and not dropped, with their times, oldest first."""
        return list(self._moments)
