"""`topics`: persistent and non-persistent ones. Source: Pulsar's `CmdTopics`."""

import asyncio
from typing import Any, Final

from pulsar_barycenter.admin.commands.cursors import TOPIC_CURSORS
from pulsar_barycenter.admin.commands.messages import TERMINATION, TOPIC_MESSAGES
from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.permissions import TOPIC_PERMISSIONS
from pulsar_barycenter.admin.commands.properties import TOPIC_PROPERTIES
from pulsar_barycenter.admin.commands.table import (
    FORCE,
    NAMESPACE,
    TOPIC,
    Flag,
    Kind,
    NotDoneError,
    Resource,
    Session,
    Values,
    WrongUsageError,
    command,
    request,
    send,
)
from pulsar_barycenter.admin.routes import lookup
from pulsar_barycenter.admin.routes import topics as routes

_DOMAINS: Final = ("persistent", "non-persistent")
_LATEST: Final = 2**63 - 1
_AT_ONCE: Final = 16
_PARTITIONS = Flag("-p --partitions", "partitions", "The number of partitions.", Kind.NUMBER, required=True)
_SUBSCRIPTION = Flag("-s --subscription", "subscription", "The subscription.", required=True)
_PAIRS: Final = "Properties key=value, separated by commas or as several options."
_PROPERTIES = Flag("-p --property", "properties", _PAIRS, Kind.PAIRS)
_METADATA = Flag("-m --metadata", "metadata", _PAIRS, Kind.PAIRS)
_SYSTEM = Flag("-ist --include-system-topic", "system", "Include system topics.", Kind.SWITCH)
_STATS: Final = (
    Flag("-gpb --get-precise-backlog", "precise", "Count the backlog exactly.", Kind.SWITCH),
    Flag("-sbs --get-subscription-backlog-size", "sizes", "Show the backlog of subscriptions in bytes.", Kind.SWITCH),
    Flag(
        "-etb --get-earliest-time-in-backlog",
        "earliest",
        "Show when the oldest message of the backlog was published.",
        Kind.SWITCH,
    ),
)
_STATS_QUERY: Final = {
    "getPreciseBacklog": "precise",
    "subscriptionBacklogSize": "sizes",
    "getEarliestTimeInBacklog": "earliest",
}


async def _list(session: Session, values: Values) -> list[str]:
    """List the topics of the domain that the user named (persistent or non-persistent), or of both if the user named
    none. For a domain that the brokers have switched off, the list is empty.
    """
    domains = _DOMAINS if values["domain"] is None else (values["domain"].replace("_", "-"),)
    query = {"bundle": "bundle", "includeSystemTopic": "system"}
    found: list[str] = []
    for domain in domains:
        found += await send(session, routes.LIST_TOPICS, {**values, "domain": domain}, query=query)
    return found


async def _list_partitioned(session: Session, values: Values) -> list[str]:
    found: list[str] = []
    for domain in _DOMAINS:
        named = {**values, "domain": domain}
        found += await send(session, routes.LIST_PARTITIONED_TOPICS, named, query={"includeSystemTopic": "system"})
    return found


async def _create_partitioned(session: Session, values: Values) -> None:
    count, properties = values["partitions"], values["metadata"]
    if not properties:
        await send(session, routes.CREATE_PARTITIONED_TOPIC, values, body=count)
        return
    body = {"partitions": count, "properties": properties}
    await send(session, routes.CREATE_PARTITIONED_TOPIC, values, body=body, media_type=_WITH_PROPERTIES)


async def _look_up(session: Session, topic: str) -> str:
    found = await send(session, lookup.LOOK_UP, {"topic": topic})
    address = found.get("brokerUrlTls") if session.has_tls else None
    return str(address or found["brokerUrl"])


async def _lookup(session: Session, values: Values) -> str:
    return await _look_up(session, values["topic"])


async def _partitioned_lookup(session: Session, values: Values) -> dict[str, Any]:
    """Look up each partition of a topic. Return a mapping from partition to the address of its broker; if the user gave
    --sort-by-broker (`by_broker`), a mapping from each address to the list of its partitions.

    Raises:
        NotDoneError: the topic is not partitioned.
    """
    count = (await send(session, routes.GET_PARTITIONS, values))["partitions"]
    if not count:
        raise NotDoneError(f"Topic {values['name']} is not a partitioned topic: use `topics lookup`")
    gate = asyncio.Semaphore(_AT_ONCE)

    async def of(number: int) -> str:
        async with gate:
            return await _look_up(session, f"{values['topic']}-partition-{number}")

    served = dict(enumerate(await asyncio.gather(*map(of, range(count)))))
    names = {number: f"{values['name']}-partition-{number}" for number in served}
    if not values["by_broker"]:
        return {names[number]: broker for number, broker in served.items()}
    found: dict[str, list[str]] = {}
    for number, broker in served.items():
        found.setdefault(broker, []).append(names[number])
    return dict(sorted(found.items()))


async def _bundle_range(session: Session, values: Values) -> Any:
    return await send(session, lookup.GET_BUNDLE, values)


async def _compact(session: Session, values: Values) -> str:
    await send(session, routes.COMPACT, values)
    return f"Topic compaction requested for {values['name']}"


def _start(values: Values) -> dict[str, Any]:
    """Return the body of a request that creates a subscription: the message at which it starts, and its properties if
    the user gave any.
    """
    properties = values["properties"]
    return {**_position(values), **({"properties": properties} if properties else {})}


def _new_properties(values: Values) -> dict[str, str]:
    if bool(values["properties"]) == bool(values["clear"]):
        raise WrongUsageError("give either --property, with all properties, or --clear")
    return values["properties"] or {}


def _position(values: Values) -> dict[str, int]:
    """Return the message id that the user gave as `latest`, `earliest` or `LEDGER:ENTRY`, as the fields of the body."""
    text = str(values["position"])
    if text in ("latest", "earliest"):
        number = _LATEST if text == "latest" else -1
        return {"ledgerId": number, "entryId": number, "partitionIndex": -1}
    ledger, _, entry = text.partition(":")
    try:
        return {"ledgerId": int(ledger), "entryId": int(entry), "partitionIndex": -1}
    except ValueError as error:
        raise WrongUsageError(f"--messageId is {text!r}: give latest, earliest or LEDGER:ENTRY") from error


_WITH_PROPERTIES: Final = "application/vnd.partitioned-topic-metadata+json"
"""The media type of a body that has partitions and properties. Source: Pulsar's `PartitionedTopicMetadata`."""

TOPICS: Final = Resource(
    "topics",
    "Topics, partitions and subscriptions.",
    (
        command(
            "list",
            "List the topics of a namespace, partitions one by one.",
            _list,
            NAMESPACE,
            Flag("-td --topic-domain", "domain", "Only topics of this domain.", choices=(*_DOMAINS, "non_persistent")),
            Flag("-b --bundle", "bundle", "Only topics in this hash range."),
            _SYSTEM,
        ),
        command(
            "list-partitioned-topics",
            "List the partitioned topics of a namespace.",
            _list_partitioned,
            NAMESPACE,
            _SYSTEM,
        ),
        command(
            "create",
            "Create a topic without partitions.",
            request(routes.CREATE_TOPIC, body=lambda values: values["metadata"]),
            TOPIC,
            _METADATA,
        ),
        command(
            "create-partitioned-topic",
            "Create a topic with partitions.",
            _create_partitioned,
            TOPIC,
            _PARTITIONS,
            _METADATA,
        ),
        command(
            "update-partitioned-topic",
            "Add partitions.",
            request(
                routes.UPDATE_PARTITIONED_TOPIC,
                query={"updateLocalTopicOnly": "local", "force": "force"},
                body=lambda values: values["partitions"],
            ),
            TOPIC,
            _PARTITIONS,
            Flag("-ulo --update-local-only", "local", "Only in this cluster.", Kind.SWITCH),
            Flag(
                "-f --force",
                "force",
                "Do not check whether topics with the names of new partitions exist.",
                Kind.SWITCH,
            ),
        ),
        command(
            "get-partitioned-topic-metadata", "Show the number of partitions.", request(routes.GET_PARTITIONS), TOPIC
        ),
        command(
            "delete-partitioned-topic",
            "Delete a topic with all its partitions.",
            request(routes.DELETE_PARTITIONED_TOPIC, query={"force": "force"}),
            TOPIC,
            FORCE,
        ),
        command("delete", "Delete a topic.", request(routes.DELETE_TOPIC, query={"force": "force"}), TOPIC, FORCE),
        command(
            "create-missed-partitions",
            "Create partitions that are missing.",
            request(routes.CREATE_MISSED_PARTITIONS),
            TOPIC,
        ),
        command("lookup", "Show the address of the broker that serves a topic.", _lookup, TOPIC),
        command(
            "partitioned-lookup",
            "Show the addresses of the brokers that serve the partitions.",
            _partitioned_lookup,
            TOPIC,
            Flag("-s --sort-by-broker", "by_broker", "Show the partitions of each broker.", Kind.SWITCH),
            form=Form.PAIRS,
        ),
        command("bundle-range", "Show the hash range of the bundle that a topic belongs to.", _bundle_range, TOPIC),
        command("unload", "Close a topic; its next use loads it again.", request(routes.UNLOAD_TOPIC), TOPIC),
        command("stats", "Show the statistics.", request(routes.GET_STATS, query=_STATS_QUERY), TOPIC, *_STATS),
        command(
            "stats-internal",
            "Show ledgers and cursors.",
            request(routes.GET_INTERNAL_STATS, query={"metadata": "metadata"}),
            TOPIC,
            Flag("-m --metadata", "metadata", "Include the stored metadata of each ledger.", Kind.SWITCH),
        ),
        command("info-internal", "Show ledgers and cursors as stored.", request(routes.GET_INTERNAL_INFO), TOPIC),
        command(
            "partitioned-stats",
            "Show the sums over all partitions.",
            request(routes.GET_PARTITIONED_STATS, query={"perPartition": "each", **_STATS_QUERY}),
            TOPIC,
            Flag("--per-partition", "each", "Show each partition as well.", Kind.SWITCH),
            *_STATS,
        ),
        command(
            "partitioned-stats-internal",
            "Show ledgers and cursors of all partitions.",
            request(routes.GET_PARTITIONED_INTERNAL_STATS),
            TOPIC,
        ),
        command("subscriptions", "List the subscriptions.", request(routes.LIST_SUBSCRIPTIONS), TOPIC),
        command(
            "create-subscription",
            "Create a subscription.",
            request(routes.CREATE_SUBSCRIPTION, query={"replicated": "replicated"}, body=_start),
            TOPIC,
            _SUBSCRIPTION,
            Flag(
                "-m --messageId",
                "position",
                "The start of the subscription: latest, earliest or LEDGER:ENTRY.",
                default="latest",
            ),
            Flag("-r --replicated", "replicated", "Replicate the subscription to other clusters.", Kind.SWITCH),
            _PROPERTIES,
        ),
        command(
            "get-subscription-properties",
            "Show the properties of a subscription.",
            request(routes.GET_SUBSCRIPTION_PROPERTIES),
            TOPIC,
            _SUBSCRIPTION,
        ),
        command(
            "update-subscription-properties",
            "Replace the properties of a subscription.",
            request(routes.REPLACE_SUBSCRIPTION_PROPERTIES, body=_new_properties),
            TOPIC,
            _SUBSCRIPTION,
            _PROPERTIES,
            Flag("-c --clear", "clear", "Remove all properties.", Kind.SWITCH),
        ),
        *TOPIC_PROPERTIES,
        command(
            "unsubscribe",
            "Delete a subscription.",
            request(routes.DELETE_SUBSCRIPTION, query={"force": "force"}),
            TOPIC,
            _SUBSCRIPTION,
            FORCE,
        ),
        command("compact", "Start to compact a topic.", _compact, TOPIC),
        command("compaction-status", "Show the status of compaction.", request(routes.GET_COMPACTION), TOPIC),
        *TOPIC_CURSORS,
        *TOPIC_MESSAGES,
        *TERMINATION,
        *TOPIC_PERMISSIONS,
    ),
)
