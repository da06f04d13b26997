"""Refusals, told to the operator: one event each, but no more than a log can bear."""

from typing import Final

import structlog

from barycenter.broker.access.principal import Principal
from barycenter.broker.authorization.needs import Need

log = structlog.get_logger(__name__)

MOST_A_SECOND: Final = 20
"""Refusals told within a second; further ones are counted, and the next one that is told says how many."""

LONGEST: Final = 1_000
"""Characters of the longest text of a refusal that is told."""


class Refusals:
    """`total` counts those since the broker started, told or not."""

    def __init__(self) -> None:
        self.total = 0
        self._second = -1
        self._told = 0
        self._untold = 0

    def add(self, now_ms: int, who: Principal, need: Need, *, address: str, request: str, reason: str) -> None:
        """Tell one, unless MOST_A_SECOND were told in this second. `request` is the command or route."""
        self.total += 1
        second = now_ms // 1000
        if second != self._second:
            self._second, self._told = second, 0
        if self._told >= MOST_A_SECOND:
            self._untold += 1
            return
        self._told += 1
        untold, self._untold = self._untold, 0
        log.warning(
            "access_refused",
            role=str(who)[:LONGEST],
            needed=str(need)[:LONGEST],
            request=request[:LONGEST],
            address=address,
            reason=reason[:LONGEST],
            **({"untold_before": untold} if untold else {}),
        )
