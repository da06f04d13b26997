"""Properties of namespaces and topics, and the clusters of a namespace.

Source: Pulsar's `CmdNamespaces` and `CmdTopics`.
"""

from typing import Any, Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import NAMESPACE, TOPIC, Flag, Kind, Values, command, request
from pulsar_barycenter.admin.routes import namespace_details as routes
from pulsar_barycenter.admin.routes import topics

_KEY: Final = Flag("-k --key", "key", "The name of the property.", required=True)
_CLUSTERS: Final = Flag("-c --clusters", "clusters", "Clusters, separated by commas.", Kind.NAMES, required=True)
_PAIRS: Final = "A property, as key=value; repeat it for more."


def _clusters(values: Values) -> Any:
    return values["clusters"]


def _properties(values: Values) -> Any:
    return values["properties"]


NAMESPACE_DETAILS: Final = (
    command(
        "get-clusters",
        "List the clusters that have a namespace's messages.",
        request(routes.GET_REPLICATION),
        NAMESPACE,
    ),
    command(
        "set-clusters",
        "Set the clusters that have a namespace's messages: this cluster alone.",
        request(routes.SET_REPLICATION, body=_clusters),
        NAMESPACE,
        _CLUSTERS,
    ),
    command(
        "get-allowed-clusters",
        "List the clusters to which topics may be limited.",
        request(routes.GET_ALLOWED_CLUSTERS),
        NAMESPACE,
    ),
    command(
        "set-allowed-clusters",
        "Set the clusters to which topics may be limited.",
        request(routes.SET_ALLOWED_CLUSTERS, body=_clusters),
        NAMESPACE,
        _CLUSTERS,
    ),
    command("get-properties", "Show the properties of a namespace.", request(routes.GET_PROPERTIES), NAMESPACE),
    command(
        "set-properties",
        "Add or replace properties of a namespace.",
        request(routes.ADD_PROPERTIES, body=_properties),
        NAMESPACE,
        Flag("-p --properties", "properties", _PAIRS, Kind.PAIRS, required=True),
    ),
    command("clear-properties", "Remove all properties of a namespace.", request(routes.CLEAR_PROPERTIES), NAMESPACE),
    command("get-property", "Show one property of a namespace.", request(routes.GET_PROPERTY), NAMESPACE, _KEY),
    command(
        "set-property",
        "Set one property of a namespace.",
        request(routes.SET_PROPERTY),
        NAMESPACE,
        _KEY,
        Flag("-v --value", "value", "Its value.", required=True),
    ),
    command("remove-property", "Remove one property of a namespace.", request(routes.REMOVE_PROPERTY), NAMESPACE, _KEY),
)

TOPIC_PROPERTIES: Final = (
    command(
        "get-properties",
        "Show the properties of a topic.",
        request(topics.GET_TOPIC_PROPERTIES),
        TOPIC,
        form=Form.PAIRS,
    ),
    command(
        "update-properties",
        "Add or replace properties of a topic.",
        request(topics.ADD_TOPIC_PROPERTIES, body=_properties),
        TOPIC,
        Flag("-p --property", "properties", _PAIRS, Kind.PAIRS, required=True),
    ),
    command(
        "remove-properties",
        "Remove a property of a topic.",
        request(topics.REMOVE_TOPIC_PROPERTY, query={"key": "key"}),
        TOPIC,
        _KEY,
    ),
)
