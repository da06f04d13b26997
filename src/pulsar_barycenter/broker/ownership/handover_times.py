"""Measures how long it takes to hand bundles over, on the old owner and on the new one.

| phase | measured by | from | until |
|---|---|---|---|
| close | the old owner | the request to release the bundle | the topics are closed, or their time is over |
| give_up | the old owner | the same | another broker can own it |
| served | the old owner | the same | another broker, or the same one again, owns it |
| take | the new owner | the bundle was assigned, or this broker began to acquire it | it serves it |

If no client uses a bundle after an unload, `served` ends when one does. The loss of a bundle is not measured.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from pulsar_barycenter.broker.instruments import HandoverPhase
from pulsar_barycenter.naming.bundle import Bundle

_MAX_TIMED: Final = 10_000
"""The maximum number of bundles whose handover is measured at the same time; beyond it the oldest measurement is
dropped.
"""


def _unobserved(_phase: HandoverPhase, _seconds: float) -> None:
    """Ignore the measured time of a phase. This is the default callback, until a metric is connected."""


class HandoverTimes:
    def __init__(self) -> None:
        self.observe: Callable[[HandoverPhase, float], None] = _unobserved
        """Called with each phase that ended, and its duration in seconds."""
        self._giving: dict[Bundle, float] = {}
        self._taking: dict[Bundle, float] = {}

    def giving(self, bundle: Bundle) -> None:
        """Record that this broker begins to release a bundle. From now on, the time of this handover is measured."""
        self._giving.pop(bundle, None)
        _begin(self._giving, bundle)

    def closed(self, bundle: Bundle) -> None:
        self._observe("close", self._giving.get(bundle))

    def given_up(self, bundle: Bundle) -> None:
        self._observe("give_up", self._giving.get(bundle))

    def served(self, bundle: Bundle) -> None:
        """Record that a bundle has an owner again. If this broker had released it, the time from `giving` until now is
        reported.
        """
        self._observe("served", self._giving.pop(bundle, None))

    def taking(self, bundle: Bundle) -> None:
        """Record that this broker begins to take over a bundle."""
        if bundle not in self._taking:
            _begin(self._taking, bundle)

    def taken(self, bundle: Bundle) -> None:
        self._observe("take", self._taking.pop(bundle, None))

    def not_taken(self, bundle: Bundle) -> None:
        """Record that this broker will not get a bundle that it began to take over; the measured time is dropped."""
        self._taking.pop(bundle, None)

    def _observe(self, phase: HandoverPhase, began: float | None) -> None:
        if began is not None:
            self.observe(phase, asyncio.get_running_loop().time() - began)


def _begin(times: dict[Bundle, float], bundle: Bundle) -> None:
    if len(times) >= _MAX_TIMED:
        del times[next(iter(times))]
    times[bundle] = asyncio.get_running_loop().time()
