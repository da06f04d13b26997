"""Logs refused requests, one event for each, at a bounded rate."""

from collections.abc import Callable

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.needs import Need
from pulsar_barycenter.broker.bounded_log import BoundedLog


class Refusals:
    """Counts and logs the refusals since the broker started; `now_s` is any clock, in seconds."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._log = BoundedLog("access_refused", now_s)

    @property
    def total(self) -> int:
        """The number of refusals, logged or not."""
        return self._log.total

    def add(self, who: Principal, need: Need, *, address: str, request: str, reason: str) -> None:
        """Log a refusal, unless the bound on the rate is reached. `request` is the command or route."""
        self._log.log(role=str(who), needed=str(need), request=request, address=address, reason=reason)
