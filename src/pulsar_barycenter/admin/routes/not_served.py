"""Requests about what this broker leaves out: functions, sources and sinks, packages, transactions, scalable
topics, offloading, properties of topics as labels of metrics.

They get the status that Pulsar answers where the feature is switched off. Source: Pulsar's `FunctionsBase`, `Packages`,
`TransactionsBase`; for scalable topics `ScalableTopics` and `Segments` of Pulsar 5.
"""

from typing import Final

from pulsar_barycenter.admin.operations import NamespaceOperation
from pulsar_barycenter.admin.routes.rights import KNOWN_CALLER, OnNamespace, reads, writes
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

_POLICIES: Final = "{offload:offloadPolicies|offloadThreshold|offloadThresholdInSeconds|offloadDeletionLagMs}"
_OFFLOADS: Final = (
    f"/admin/v2/namespaces/{{tenant}}/{{namespace}}/{_POLICIES}",
    "/admin/v2/{domain:persistent}/{tenant}/{namespace}/{topic:[^/]+}/{offload:offloadPolicies}",
)
for _path in _OFFLOADS:
    NOT_SERVED.route(
        "GET",
        _path,
        "offload_policy",
        reads("OFFLOAD"),
        "Show a policy about offloading: 204, and thresholds of -1, because nothing is offloaded.",
        without_command=_WITHOUT_COMMAND,
    )
    for _method in ("POST", "PUT"):
        NOT_SERVED.route(
            _method,
            _path,
            "refuse_offload",
            writes("OFFLOAD"),
            "Refused with 405: messages are not offloaded.",
            without_command=_WITHOUT_COMMAND,
        )
for _path in (*_OFFLOADS, "/admin/v2/namespaces/{tenant}/{namespace}/removeOffloadPolicies"):
    NOT_SERVED.route(
        "DELETE",
        _path,
        "remove_offload",
        writes("OFFLOAD"),
        "Remove a policy about offloading, of which there are none.",
        without_command=_WITHOUT_COMMAND,
    )
NOT_SERVED.route(
    "GET",
    "/admin/v2/{domain:persistent}/{tenant}/{namespace}/{topic:[^/]+}/offload",
    "offload_status",
    reads("OFFLOAD"),
    "Show that no ledger of a topic was ever offloaded.",
    without_command=_WITHOUT_COMMAND,
)
NOT_SERVED.route(
    "PUT",
    "/admin/v2/{domain:persistent}/{tenant}/{namespace}/{topic:[^/]+}/offload",
    "refuse_offload",
    writes("OFFLOAD"),
    "Refused with 405: messages are not offloaded.",
    without_command=_WITHOUT_COMMAND,
)

_LABELS: Final = "/admin/v2/namespaces/{tenant}/{namespace}/allowedTopicPropertyKeysForMetrics"

NOT_SERVED.route(
    "GET",
    _LABELS,
    "metric_labels",
    reads("ALL"),
    "Show the properties of topics that are labels of metrics: null, because none is.",
    without_command=_WITHOUT_COMMAND,
)
NOT_SERVED.route(
    "POST",
    _LABELS,
    "refuse_metric_labels",
    writes("ALL"),
    "Refused with 405: properties of topics are not labels of metrics.",
    without_command=_WITHOUT_COMMAND,
)
NOT_SERVED.route(
    "DELETE",
    _LABELS,
    "remove_metric_labels",
    writes("ALL"),
    "Remove the properties of topics that are labels of metrics, of which there are none.",
    without_command=_WITHOUT_COMMAND,
)
