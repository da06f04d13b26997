"""`namespaces`. Source: Pulsar's `CmdNamespaces`."""

from typing import Any, Final

from pulsar_barycenter.admin.commands.limits import NAMESPACE_LIMITS
from pulsar_barycenter.admin.commands.permissions import NAMESPACE_PERMISSIONS
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
    filled,
    parameters,
    request,
)

_BUNDLE = Flag("-b --bundle", "bundle", "The hash range, such as 0x00000000_0x80000000.")
_GROUP = Flag("-g --group", "group", "The anti-affinity group.", required=True)
_MOST_BUNDLES: Final = 2**32
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _create_body(values: Values) -> dict[str, Any] | None:
    count = values["bundles"]
    if count is not None and not 0 <= count <= _MOST_BUNDLES:
        raise WrongUsageError(
            f"--bundles is {count}: give 0, for what the broker is configured for, to {_MOST_BUNDLES}"
        )
    body: dict[str, Any] = {}
    if values["clusters"]:
        body["replication_clusters"] = values["clusters"]
    if count:
        body["bundles"] = {"numBundles": count}
    return body or None


async def _unload(session: Session, values: Values) -> None:
    if values["destination"] and not values["bundle"]:
        raise WrongUsageError("--destinationBroker is for a bundle: name it with --bundle")
    path = "/namespaces/{namespace}/{bundle}/unload" if values["bundle"] else "/namespaces/{namespace}/unload"
    await session.call("PUT", filled(path, values), params=parameters(values, {"destinationBroker": "destination"}))


async def _split(session: Session, values: Values) -> None:
    if (values["bundle"] is None) == (values["type"] is None):
        raise WrongUsageError("give either --bundle or --bundle-type")
    try:
        positions = [int(each, 0) for each in values["boundaries"] or ()]
    except ValueError as error:
        raise WrongUsageError(f"--split-boundaries: {error}: give whole numbers, separated by commas") from error
    known = {**values, "bundle": values["bundle"] or values["type"]}
    await session.call(
        "PUT",
        filled("/namespaces/{namespace}/{bundle}/split", known),
        params=parameters(values, {"unload": "unload", "splitAlgorithmName": "algorithm"}),
        body=positions or None,
    )


async def _positions(session: Session, values: Values) -> Any:
    path = filled("/namespaces/{namespace}/{bundle}/topicHashPositions", values)
    topics = values["topics"]
    return await session.call("GET", path, params={"topics": ",".join(topics)} if topics else None)


def _deduplication_body(values: Values) -> bool:
    if values["enable"] == values["disable"]:
        raise WrongUsageError("give either --enable or --disable")
    return bool(values["enable"])


def _threshold_body(values: Values) -> int:
    text = str(values["threshold"])
    unit = _UNITS.get(text[-1:].upper(), 0)
    try:
        return int(text[:-1] if unit else text) * (unit or 1)
    except ValueError as error:
        raise WrongUsageError(f"--threshold is {text!r}: give bytes, such as 4096, 100K, 10M, 16G or 2T") from error


_ANTI_AFFINITY: Final = "/namespaces/{namespace}/antiAffinity"
_DEDUPLICATION: Final = "/namespaces/{namespace}/deduplication"
_THRESHOLD: Final = "/namespaces/{namespace}/compactionThreshold"

NAMESPACES: Final = Resource(
    "namespaces",
    "Namespaces: their bundles, policies and permissions.",
    (
        command("list", "List the namespaces of a tenant.", request("GET", "/namespaces/{tenant}"), TENANT),
        command(
            "create",
            "Create a namespace.",
            request("PUT", "/namespaces/{namespace}", body=_create_body),
            NAMESPACE,
            Flag("-c --clusters", "clusters", "Clusters it is replicated to, separated by commas.", Kind.NAMES),
            Flag("-b --bundles", "bundles", "How many bundles; 0 is the broker's default.", Kind.NUMBER),
        ),
        command(
            "delete",
            "Delete a namespace; with --force its topics, too.",
            request("DELETE", "/namespaces/{namespace}", query={"force": "force"}),
            NAMESPACE,
            FORCE,
        ),
        command("policies", "Show the policies.", request("GET", "/namespaces/{namespace}"), NAMESPACE),
        command(
            "bundles",
            "Show the boundaries of the bundles.",
            request("GET", "/namespaces/{namespace}/bundles"),
            NAMESPACE,
        ),
        command(
            "topics",
            "List the topics.",
            request("GET", "/namespaces/{namespace}/topics", query={"mode": "mode", "includeSystemTopic": "system"}),
            NAMESPACE,
            Flag("-m --mode", "mode", "Which.", choices=("PERSISTENT", "NON_PERSISTENT", "ALL")),
            Flag("-ist --include-system-topic", "system", "Also topics of the system.", Kind.SWITCH),
        ),
        command(
            "unload",
            "Unload all bundles, or one; its next owner is the one named, or chosen by the load manager.",
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
            Flag("-bt --bundle-type", "type", "Which bundle, if it is not named.", choices=("LARGEST", "HOT")),
            Flag("-u --unload", "unload", "Unload the parts.", Kind.SWITCH),
            Flag("-san --split-algorithm-name", "algorithm", "How the boundary is found."),
            Flag("-sb --split-boundaries", "boundaries", "For specified_positions_divide: hashes.", Kind.NAMES),
        ),
        command(
            "get-topic-positions",
            "Show the hashes of a bundle's topics.",
            _positions,
            NAMESPACE,
            Flag("-b --bundle", "bundle", "The hash range.", required=True),
            Flag("-tl --topic-list", "topics", "Topics, separated by commas; all unless given.", Kind.NAMES),
        ),
        command(
            "set-anti-affinity-group",
            "Put a namespace into an anti-affinity group.",
            request("POST", _ANTI_AFFINITY, body=lambda values: values["group"]),
            NAMESPACE,
            _GROUP,
        ),
        command("get-anti-affinity-group", "Show the anti-affinity group.", request("GET", _ANTI_AFFINITY), NAMESPACE),
        command(
            "delete-anti-affinity-group",
            "Take it out of its anti-affinity group.",
            request("DELETE", _ANTI_AFFINITY),
            NAMESPACE,
        ),
        command(
            "get-anti-affinity-namespaces",
            "List the namespaces of an anti-affinity group.",
            request("GET", "/namespaces/{cluster}/antiAffinity/{group}", query={"tenant": "tenant"}),
            Flag("-p --tenant", "tenant", "Of this tenant alone."),
            Flag("-c --cluster", "cluster", "The cluster.", required=True),
            _GROUP,
        ),
        command(
            "set-deduplication",
            "Have topics drop what is sent twice, or not.",
            request("POST", _DEDUPLICATION, body=_deduplication_body),
            NAMESPACE,
            Flag("-e --enable", "enable", "They drop it.", Kind.SWITCH),
            Flag("-d --disable", "disable", "They do not.", Kind.SWITCH),
        ),
        command(
            "get-deduplication",
            "Show whether topics drop what is sent twice.",
            request("GET", _DEDUPLICATION),
            NAMESPACE,
        ),
        command(
            "remove-deduplication", "Have the broker's setting count.", request("DELETE", _DEDUPLICATION), NAMESPACE
        ),
        command(
            "set-compaction-threshold",
            "Set from how many bytes on topics are compacted.",
            request("PUT", _THRESHOLD, body=_threshold_body),
            NAMESPACE,
            Flag("-t --threshold", "threshold", "Bytes, such as 10M; 0 is never.", required=True),
        ),
        command("get-compaction-threshold", "Show that threshold.", request("GET", _THRESHOLD), NAMESPACE),
        command(
            "remove-compaction-threshold", "Have the broker's setting count.", request("DELETE", _THRESHOLD), NAMESPACE
        ),
        *NAMESPACE_LIMITS,
        *NAMESPACE_PERMISSIONS,
    ),
)
