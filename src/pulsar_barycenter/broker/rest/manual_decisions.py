"""Records requests of operators that move bundles as decisions: the principal, the reason and the request.

| request                                     | decision                                | recorded by          |
|---------------------------------------------|-----------------------------------------|----------------------|
| unload of a bundle, with a destination too  | unload, `source` is the owner           | the owner            |
| a destination for a bundle that is unowned  | assign                                  | the leader           |
| unload of a namespace                       | unload of each bundle                   | the broker that got it |
| isolation policy that changes placements    | unload of each bundle, naming the policy| the broker that got it |
| split                                       | split                                   | the owner            |
| DRAINED_KEY set or removed                  | drain, undrain                          | the broker that got it |

A load manager's own commands have the header COMMANDED. The load manager records them itself, so they are not recorded
here. These routes are for super users only, and brokers are super users; so no other client can hide a move with that
header. `at` is when the request arrived, which is before the next owner reports the bundle. `cluster_logs.audit_log`
records every administrative request; this module records its effect on a bundle or a broker, for `explain` and
`history`.
"""

from typing import Final
from urllib.parse import quote

from aiohttp import web

from pulsar_barycenter.broker.access.principal import NOBODY
from pulsar_barycenter.broker.cluster.http_peers import COMMANDED, LEADER_EPOCH
from pulsar_barycenter.broker.rest.audit import WHY, why_of
from pulsar_barycenter.broker.rest.principals import PRINCIPAL
from pulsar_barycenter.broker.rest.request_ids import REQUEST_ID
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.cluster_logs.decision_log import ANONYMOUS, Kind
from pulsar_barycenter.load.reasons import Code, Reason

_LONGEST_REQUEST: Final = 500
"""The maximum number of characters of the text of a request in a recorded decision."""


def principal_of(request: web.Request) -> str:
    """Return the principal that sent the request, as text; ANONYMOUS without authentication."""
    who = request.get(PRINCIPAL, NOBODY)
    return str(who) if who.roles else ANONYMOUS


def on_behalf_of(request: web.Request, what: str) -> dict[str, str]:
    """Return the HTTP header that gives the reason of a change. It is for requests that this broker sends to other
    brokers in order to carry out `request`.

    The reason is `what`, then the principal that sent `request`, then the reason in `request` if there is one.
    """
    why = why_of(request)
    return {WHY: quote(f"{what} by {principal_of(request)}" + (f": {why}" if why else ""), safe=" ")}


class ManualDecisions:
    """Records in the decision log what an operator decided by one REST request. Create the object when the request
    arrives: this is the time of the decisions. After a decision was carried out, call the method for it, for example
    `unloaded`. Requests that a load manager sent are not recorded.
    """

    def __init__(self, services: BrokerServices, request: web.Request) -> None:
        self._services = services
        self._request = request
        self._at_ms = services.control.env.clock.now_ms()

    def unloaded(self, bundle: str, source: str, destination: str = "") -> None:
        self._record("unload", bundle, bundle=bundle, source=source, destination=destination)

    def assigned(self, bundle: str, destination: str) -> None:
        self._record("assign", bundle, bundle=bundle, destination=destination)

    def split(self, bundle: str, source: str) -> None:
        self._record("split", bundle, bundle=bundle, source=source)

    def drained(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        """Record the change of the list of drained brokers from `before` to `after`: one decision for each broker that
        was added to it, and one for each that was removed.
        """
        for broker in sorted({*after} - {*before}):
            self._record("drain", broker, source=broker)
        for broker in sorted({*before} - {*after}):
            self._record("undrain", broker, source=broker)

    @property
    def _is_command(self) -> bool:
        """Whether a load manager of a broker sent the request, and not an operator. Leaders mark such requests with a
        header. Those of older releases do not; they are recognized by the epoch in the query.
        """
        return COMMANDED in self._request.headers or LEADER_EPOCH in self._request.rel_url.query

    def _record(self, kind: Kind, subject: str, *, bundle: str = "", source: str = "", destination: str = "") -> None:
        decisions = self._services.decisions()
        if decisions is None or self._is_command:
            return
        principal, why = principal_of(self._request), why_of(self._request)
        reason = Reason(code=Code.ADMIN, subject=subject, detail=f"{principal}, {why}" if why else principal)
        self._services.control.env.instruments.decided(kind, reason.code)
        decisions.record(
            self._at_ms,
            kind,
            reason,
            bundle=bundle,
            source=source,
            destination=destination,
            principal=principal,
            request=f"{self._request.method} {self._request.rel_url.raw_path_qs}"[:_LONGEST_REQUEST],
            request_id=self._request[REQUEST_ID],
        )
