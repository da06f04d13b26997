"""Logs refused requests. The number of log lines in a second is limited."""

from collections.abc import Callable

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.authorization.needs import Need
from pulsar_barycenter.broker.bounded_log import BoundedLog


class Refusals:
    """Counts and logs the requests that were refused since the broker started. `now_s` is a clock in seconds, for the
    limit of log lines in a second.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._log = BoundedLog("access_refused", now_s)

    @property
    def total(self) -> int:
        """The number of refused requests, logged or not."""
        return self._log.total

    def add(self, who: Principal, need: Need, *, address: str, request: str, reason: str) -> None:
        """Count a refused request. Log it, too, unless the limit of log lines in this second is reached. `request` is
        the command of the binary protocol or the HTTP route.
        """
        self._log.log(role=str(who), needed=str(need), request=request, address=address, reason=reason)
