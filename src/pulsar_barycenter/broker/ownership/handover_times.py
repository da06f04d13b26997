"""How long handing bundles over takes, as the broker that gives and the broker that takes see it.

| phase | whose | from | until |
|---|---|---|---|
| close | the giver's | it was told to give the bundle up | the topics are closed, or the time for that is over |
| give_up | the giver's | the same | nothing keeps others from owning it |
| served | the giver's | the same | another broker, or the same one again, has it |
| take | the taker's | it was given the bundle, or asked for it | it serves it |

A bundle that nobody asks for after an unload has no `served` before somebody does. Losses are no handing over.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from pulsar_barycenter.broker.instruments import HandoverPhase
from pulsar_barycenter.naming.bundle import Bundle

_MOST: Final = 10_000
"""Bundles under way that are timed; of more, the oldest is forgotten."""


def _unobserved(_phase: HandoverPhase, _seconds: float) -> None:
    """Nobody asked."""


class HandoverTimes:
    def __init__(self) -> None:
        self.observe: Callable[[HandoverPhase, float], None] = _unobserved
        """Called with each phase that is done and the seconds until it was."""
        self._giving: dict[Bundle, float] = {}
        self._taking: dict[Bundle, float] = {}

    def giving(self, bundle: Bundle) -> None:
        """This broker was told to give a bundle up."""
        self._giving.pop(bundle, None)
        _begin(self._giving, bundle)

    def closed(self, bundle: Bundle) -> None:
        self._observe("close", self._giving.get(bundle))

    def given_up(self, bundle: Bundle) -> None:
        self._observe("give_up", self._giving.get(bundle))

    def served(self, bundle: Bundle) -> None:
        """Somebody owns a bundle; it matters if this broker gave it up."""
        self._observe("served", self._giving.pop(bundle, None))

    def taking(self, bundle: Bundle) -> None:
        """This broker is to own a bundle."""
        if bundle not in self._taking:
            _begin(self._taking, bundle)

    def taken(self, bundle: Bundle) -> None:
        self._observe("take", self._taking.pop(bundle, None))

    def not_taken(self, bundle: Bundle) -> None:
        """This broker does not get a bundle, after all."""
        self._taking.pop(bundle, None)

    def _observe(self, phase: HandoverPhase, began: float | None) -> None:
        if began is not None:
            self.observe(phase, asyncio.get_running_loop().time() - began)


def _begin(times: dict[Bundle, float], bundle: Bundle) -> None:
    if len(times) >= _MOST:
        del times[next(iter(times))]
    times[bundle] = asyncio.get_running_loop().time()
