"""`namespaces`. Source: Pulsar's `CmdNamespaces`."""

from typing import Any, Final

from pulsar_barycenter.admin.commands.auto_creation import AUTO_CREATION
from pulsar_barycenter.admin.commands.bookies import NAMESPACE_BOOKIES
from pulsar_barycenter.admin.commands.cursors import NAMESPACE_CURSORS
from pulsar_barycenter.admin.commands.limits import NAMESPACE_LIMITS
from pulsar_barycenter.admin.commands.permissions import NAMESPACE_PERMISSIONS
from pulsar_barycenter.admin.commands.properties import NAMESPACE_DETAILS
from pulsar_barycenter.admin.commands.resource_groups import NAMESPACE_RESOURCE_GROUPS
from pulsar_barycenter.admin.commands.rules import NAMESPACE_RULES
from pulsar_barycenter.admin.commands.schemas import NAMESPACE_SCHEMAS
from pulsar_barycenter.admin.commands.storage import NAMESPACE_STORAGE
from pulsar_barycenter.admin.commands.table import (
    FORCE,
    NAMESPACE,
    TENANT,
    Flag,
    Kind,
    Resource,
    Session,
    Values,
    WrongUsageError,
    command,
    request,
    send,
)
from pulsar_barycenter.admin.commands.units import bytes_of
from pulsar_barycenter.admin.routes import namespaces as routes
from pulsar_barycenter.admin.routes import topics

_BUNDLE = Flag("-b --bundle", "range", "The hash range, such as 0x00000000_0x80000000.")
_GROUP = Flag("-g --group", "group", "The anti-affinity group.", required=True)
_MOST_BUNDLES: Final = 2**32


def _create_body(values: Values) -> dict[str, Any] | None:
    count = values["bundles"]
    if count is not None and not 0 <= count <= _MOST_BUNDLES:
        raise WrongUsageError(
            f"--bundles is {count}: give a number up to {_MOST_BUNDLES}, or 0 for the broker's default"
        )
    body: dict[str, Any] = {}
    if values["clusters"]:
        body["replication_clusters"] = values["clusters"]
    if count:
        body["bundles"] = {"numBundles": count}
    return body or None


async def _unload(session: Session, values: Values) -> None:
    if values["destination"] and not values["range"]:
        raise WrongUsageError("--destinationBroker moves a single bundle: name the bundle with --bundle")
    route = routes.UNLOAD_BUNDLE if values["range"] else routes.UNLOAD_NAMESPACE
    await send(session, route, values, query={"destinationBroker": "destination"})


async def _split(session: Session, values: Values) -> None:
    if (values["range"] is None) == (values["type"] is None):
        raise WrongUsageError("give either --bundle or --bundle-type")
    try:
        positions = [int(each, 0) for each in values["boundaries"] or ()]
    except ValueError as error:
        raise WrongUsageError(f"--split-boundaries: {error}: give whole numbers, separated by commas") from error
    query = {"unload": "unload", "splitAlgorithmName": "algorithm"}
    known = {**values, "range": values["range"] or values["type"]}
    await send(session, routes.SPLIT_BUNDLE, known, query=query, body=positions or None)


async def _positions(session: Session, values: Values) -> Any:
    named = {**values, "topics": ",".join(values["topics"] or ()) or None}
    return await send(session, routes.GET_HASH_POSITIONS, named, query={"topics": "topics"})


def _deduplication_body(values: Values) -> bool:
    if values["enable"] == values["disable"]:
        raise WrongUsageError("give either --enable or --disable")
    return bool(values["enable"])


def _threshold_body(values: Values) -> int:
    return bytes_of("--threshold", values["threshold"])


NAMESPACES: Final = Resource(
    "namespaces",
    "Namespaces: their bundles, policies and permissions.",
    (
        command("list", "List the namespaces of a tenant.", request(routes.LIST_NAMESPACES), TENANT),
        command(
            "create",
            "Create a namespace.",
            request(routes.CREATE_NAMESPACE, body=_create_body),
            NAMESPACE,
            Flag("-c --clusters", "clusters", "The clusters of the namespace, separated by commas.", Kind.NAMES),
            Flag("-b --bundles", "bundles", "The number of bundles; 0 means the broker's default.", Kind.NUMBER),
        ),
        command(
            "delete",
            "Delete a namespace; with --force its topics, too.",
            request(routes.DELETE_NAMESPACE, query={"force": "force"}),
            NAMESPACE,
            FORCE,
        ),
        command("policies", "Show the policies.", request(routes.GET_POLICIES), NAMESPACE),
        command(
            "bundles",
            "Show the boundaries of the bundles.",
            request(routes.GET_BUNDLES),
            NAMESPACE,
        ),
        command(
            "topics",
            "List the topics.",
            request(routes.LIST_TOPICS, query={"mode": "mode", "includeSystemTopic": "system"}),
            NAMESPACE,
            Flag("-m --mode", "mode", "The topics to list.", choices=("PERSISTENT", "NON_PERSISTENT", "ALL")),
            Flag("-ist --include-system-topic", "system", "Include system topics.", Kind.SWITCH),
        ),
        command(
            "unload",
            "Unload all bundles, or one; the load manager chooses its next owner, unless one is named.",
            _unload,
            NAMESPACE,
            _BUNDLE,
            Flag("-d --destinationBroker", "destination", "The broker to own the bundle, HOST:PORT."),
        ),
        command(
            "split-bundle",
            "Split a bundle.",
            _split,
            NAMESPACE,
            _BUNDLE,
            Flag(
                "-bt --bundle-type",
                "type",
                "The bundle to split, if --bundle is not given.",
                choices=("LARGEST", "HOT"),
            ),
            Flag("-u --unload", "unload", "Unload the new bundles after the split.", Kind.SWITCH),
            Flag("-san --split-algorithm-name", "algorithm", "The split algorithm."),
            Flag("-sb --split-boundaries", "boundaries", "The hashes for specified_positions_divide.", Kind.NAMES),
        ),
        command(
            "get-topic-positions",
            "Show the hashes of a bundle's topics.",
            _positions,
            NAMESPACE,
            Flag("-b --bundle", "range", "The hash range.", required=True),
            Flag("-tl --topic-list", "topics", "Topics, separated by commas; default: all.", Kind.NAMES),
        ),
        command(
            "set-anti-affinity-group",
            "Put a namespace into an anti-affinity group.",
            request(routes.SET_ANTI_AFFINITY_GROUP, body=lambda values: values["group"]),
            NAMESPACE,
            _GROUP,
        ),
        command(
            "get-anti-affinity-group",
            "Show the anti-affinity group.",
            request(routes.GET_ANTI_AFFINITY_GROUP),
            NAMESPACE,
        ),
        command(
            "delete-anti-affinity-group",
            "Remove a namespace from its anti-affinity group.",
            request(routes.DELETE_ANTI_AFFINITY_GROUP),
            NAMESPACE,
        ),
        command(
            "get-anti-affinity-namespaces",
            "List the namespaces of an anti-affinity group.",
            request(routes.LIST_OF_ANTI_AFFINITY_GROUP, query={"tenant": "tenant"}),
            Flag("-p --tenant", "tenant", "Only namespaces of this tenant."),
            Flag("-c --cluster", "cluster", "The cluster.", required=True),
            _GROUP,
        ),
        command(
            "set-deduplication",
            "Set whether topics drop messages that are sent twice.",
            request(routes.SET_DEDUPLICATION, body=_deduplication_body),
            NAMESPACE,
            Flag("-e --enable", "enable", "Topics drop them.", Kind.SWITCH),
            Flag("-d --disable", "disable", "Topics store them.", Kind.SWITCH),
        ),
        command(
            "get-deduplication",
            "Show whether topics drop messages that are sent twice.",
            request(routes.GET_DEDUPLICATION),
            NAMESPACE,
        ),
        command(
            "remove-deduplication",
            "Use the broker's configuration again.",
            request(routes.DELETE_DEDUPLICATION),
            NAMESPACE,
        ),
        command(
            "set-compaction-threshold",
            "Set the number of bytes from which topics are compacted.",
            request(topics.SET_COMPACTION_THRESHOLD, body=_threshold_body),
            NAMESPACE,
            Flag("-t --threshold", "threshold", "Bytes, such as 10M; 0 means never.", required=True),
        ),
        command(
            "get-compaction-threshold",
            "Show the compaction threshold.",
            request(topics.GET_COMPACTION_THRESHOLD),
            NAMESPACE,
        ),
        command(
            "remove-compaction-threshold",
            "Use the broker's configuration again.",
            request(topics.DELETE_COMPACTION_THRESHOLD),
            NAMESPACE,
        ),
        *NAMESPACE_CURSORS,
        *NAMESPACE_DETAILS,
        *NAMESPACE_LIMITS,
        *NAMESPACE_STORAGE,
        *NAMESPACE_RULES,
        *NAMESPACE_RESOURCE_GROUPS,
        *NAMESPACE_BOOKIES,
        *AUTO_CREATION,
        *NAMESPACE_SCHEMAS,
        *NAMESPACE_PERMISSIONS,
    ),
)
