"""Logs refused requests. The number of log lines in a second is limited."""

from collections.abc import Callable

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.needs import Need
from pulsar_barycenter.broker.bounded_log import BoundedLog


class Refusals:
    """Counts and logs the requests that were refused since the broker started. `now_s` is a clock, in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._log = BoundedLog("access_refused", now_s)

    @property
    def total(self) -> int:
        """The number of refused requests, logged or not."""
        return self._log.total

    def add(self, who: Principal, need: Need, *, address: str, request: str, reason: str) -> None:
        """Log a refused request, unless too many were logged in this second. `request` is the command or route."""
        self._log.log(role=str(who), needed=str(need), request=request, address=address, reason=reason)
