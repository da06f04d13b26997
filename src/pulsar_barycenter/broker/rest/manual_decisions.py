"""What people ask for that moves bundles, kept among the decisions: who, why, and by which request.

| asked for                                   | decision                                | kept by              |
|---------------------------------------------|-----------------------------------------|----------------------|
| unload of a bundle, with a destination too  | unload, `source` is the owner           | the owner            |
| a destination for a bundle that is unowned  | assign                                  | the leader           |
| unload of a namespace                       | unload of each bundle                   | the broker asked     |
| isolation policy that changes placements    | unload of each bundle, naming the policy| the broker asked     |
| split                                       | split                                   | the owner            |
| DRAINED_KEY set or removed                  | drain, undrain                          | the broker asked     |

A load manager's own commands have the header COMMANDED and are kept by that manager, so they are left out here. All
these routes are for super users, as brokers are, so no other principal can hide a move by that header. `at` is when the
request arrived, which lies before the bundle's next owner reports it. `cluster_logs.audit_log` keeps every
administrative request; this keeps what it meant for a bundle or a broker, where `explain` and `history` look.
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
"""Characters of a request that a decision keeps."""


def principal_of(request: web.Request) -> str:
    """Return who asks, ANONYMOUS where authentication is off."""
    who = request.get(PRINCIPAL, NOBODY)
    return str(who) if who.roles else ANONYMOUS


def on_behalf_of(request: web.Request, what: str) -> dict[str, str]:
    """Return the headers by which this broker tells others for `what` it asks them, who asked it for that, and why."""
    why = why_of(request)
    return {WHY: quote(f"{what} by {principal_of(request)}" + (f": {why}" if why else ""), safe=" ")}


class ManualDecisions:
    """Made when a request arrives; each method keeps one decision of it, once it is carried out."""

    def __init__(self, services: BrokerServices, request: web.Request) -> None:
        self._services = services
        self._request = request
        self._at_ms = services.control.env.clock.now_ms()

    def unloaded(self, bundle: str, source: str, destination: str = "") -> None:
        self._keep("unload", bundle, bundle=bundle, source=source, destination=destination)

    def assigned(self, bundle: str, destination: str) -> None:
        self._keep("assign", bundle, bundle=bundle, destination=destination)

    def split(self, bundle: str, source: str) -> None:
        self._keep("split", bundle, bundle=bundle, source=source)

    def drained(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        """Keep a decision for each broker that is drained `after` and was not `before`, or the other way round."""
        for broker in sorted({*after} - {*before}):
            self._keep("drain", broker, source=broker)
        for broker in sorted({*before} - {*after}):
            self._keep("undrain", broker, source=broker)

    @property
    def _is_command(self) -> bool:
        """Whether a load manager sent it: leaders of older releases give their epoch alone."""
        return COMMANDED in self._request.headers or LEADER_EPOCH in self._request.rel_url.query

    def _keep(self, kind: Kind, subject: str, *, bundle: str = "", source: str = "", destination: str = "") -> None:
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
