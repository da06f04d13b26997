"""Requests about what this broker leaves out: functions, sources and sinks, packages, transactions, scalable topics.

They get the status that Pulsar answers where the feature is switched off. Source: Pulsar's `FunctionsBase`, `Packages`,
`TransactionsBase`; for scalable topics `ScalableTopics` and `Segments` of Pulsar 5.
"""

from typing import Final

from pulsar_barycenter.admin.operations import NamespaceOperation
from pulsar_barycenter.admin.routes.rights import KNOWN_CALLER, OnNamespace
from pulsar_barycenter.admin.routes.route import RouteGroup

NOT_SERVED: Final = RouteGroup("NotServed")

_WITHOUT_COMMAND: Final = "it is refused: this broker leaves the feature out"
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")

LIST_SCALABLE_TOPICS: Final = NOT_SERVED.route(
    "GET",
    "/admin/v2/scalable/{tenant}/{namespace}",
    "scalable_topics",
    OnNamespace(NamespaceOperation.GET_TOPICS),
    "List the scalable topics of a namespace: it has none.",
    without_command="the list is always empty",
)


def _refused(path: str, handler: str, summary: str) -> None:
    for method in _METHODS:
        NOT_SERVED.route(method, path, handler, KNOWN_CALLER, summary, without_command=_WITHOUT_COMMAND)


_refused(
    "/admin/v2/{scalable:scalable|segments}/{rest:.*}",
    "refuse_scalable_topics",
    "Refused with 405: scalable topics and their segments are not served.",
)
_refused(
    "/admin/{generation:v2|v3}/{functions:functions|sources?|sinks?|worker|worker-stats}{rest:(?:/.*)?}",
    "refuse_functions",
    "Refused with 409: functions, sources and sinks are not served.",
)
_refused("/admin/v3/packages{rest:(?:/.*)?}", "refuse_packages", "Refused with 503: packages are not served.")
_refused(
    "/admin/v3/transactions{rest:(?:/.*)?}", "refuse_transactions", "Refused with 503: transactions are not served."
)
