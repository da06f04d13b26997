"""Refusals, told to the operator: one event each, but no more than a log can bear."""

from collections.abc import Callable

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.needs import Need
from pulsar_barycenter.broker.bounded_log import BoundedLog


class Refusals:
    """Those since the broker started; `now_s` is any clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._log = BoundedLog("access_refused", now_s)

    @property
    def total(self) -> int:
        """How many there were, told or not."""
        return self._log.total

    def add(self, who: Principal, need: Need, *, address: str, request: str, reason: str) -> None:
        """Tell one, as far as the bound of the log allows. `request` is the command or route."""
        self._log.tell(role=str(who), needed=str(need), request=request, address=address, reason=reason)
