"""`brokers` and `broker-stats`. Source: Pulsar's `CmdBrokers`, `CmdBrokerStats`."""

import json
from typing import Any, Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import (
    CLUSTER,
    Argument,
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
from pulsar_barycenter.admin.routes import brokers as routes

_CONFIG = Flag("-c --config", "name", "The name of the key.", required=True)
_INDENT = Flag("-i --indent", "indent", "Print JSON on several lines.", Kind.SWITCH)
_BLANKS: Final = 4


async def _list(session: Session, values: Values) -> Any:
    return await send(session, routes.LIST_BROKERS_OF_CLUSTER if values["cluster"] else routes.LIST_BROKERS, values)


async def _namespaces(session: Session, values: Values) -> Any:
    broker = values["broker"] or values["url"]
    if not broker:
        raise WrongUsageError("name the broker with --broker HOST:PORT")
    return await send(session, routes.GET_OWNED_BUNDLES, {**values, "broker": broker})


async def _shut_down(session: Session, values: Values) -> str:
    query = {"maxConcurrentUnloadPerSec": "rate", "forcedTerminateTopic": "force"}
    await send(session, routes.SHUT_DOWN, values, query=query)
    return "Successfully trigger broker shutdown gracefully"


async def _check_backlog_quotas(session: Session, _values: Values) -> str:
    await send(session, routes.CHECK_BACKLOG_QUOTAS)
    return "ok"


async def _topics(session: Session, values: Values) -> str:
    return _written(await send(session, routes.GET_TOPICS), values)


async def _metrics(session: Session, values: Values) -> str:
    found = await send(session, routes.GET_METRICS)
    return ("\n\n" if values["indent"] else "\n").join(_written(each, values) for each in found)


def _written(value: Any, values: Values) -> str:
    if values["indent"]:
        return json.dumps(value, indent=_BLANKS, ensure_ascii=False)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


BROKERS: Final = Resource(
    "brokers",
    "Brokers and their configuration.",
    (
        command("list", "List the brokers.", _list, Argument("cluster", required=False)),
        command("leader-broker", "Show the leader.", request(routes.GET_LEADER)),
        command(
            "namespaces",
            "Show the bundles that a broker owns.",
            _namespaces,
            CLUSTER,
            Flag("-b --broker", "broker", "The broker, HOST:PORT."),
            Flag("-u --url", "url", "The same as --broker, for older versions."),
        ),
        command(
            "update-dynamic-config",
            "Change a key on all brokers.",
            request(routes.SET_DYNAMIC_VALUE),
            _CONFIG,
            Flag("-v --value", "value", "The new value of the key.", required=True),
        ),
        command(
            "delete-dynamic-config",
            "Remove the dynamic value of a key.",
            request(routes.DELETE_DYNAMIC_VALUE),
            _CONFIG,
        ),
        command(
            "list-dynamic-config",
            "List the keys that can be changed at run time.",
            request(routes.LIST_DYNAMIC_CONFIGURATION),
        ),
        command(
            "get-all-dynamic-config",
            "Show the keys that were changed, with their values.",
            request(routes.GET_DYNAMIC_VALUES),
            form=Form.PAIRS,
        ),
        command(
            "get-runtime-config",
            "Show all values in force.",
            request(routes.GET_RUNTIME_CONFIGURATION),
            form=Form.PAIRS,
        ),
        command(
            "get-internal-config",
            "Show the addresses of the metadata store and the ledgers.",
            request(routes.GET_INTERNAL_CONFIGURATION),
        ),
        command(
            "healthcheck",
            "Have a broker write a message to itself and read it.",
            request(routes.CHECK_HEALTH, query={"topicVersion": "version"}),
            Flag("-tv --topic-version", "version", "The form of the topic's name.", choices=("V1", "V2")),
        ),
        command("backlog-quota-check", "Enforce the backlog quotas of the broker's topics now.", _check_backlog_quotas),
        command("version", "Show the version of the broker.", request(routes.GET_VERSION)),
        command(
            "shutdown",
            "Stop the broker at the address in an orderly way.",
            _shut_down,
            Flag(
                "-m --max-concurrent-unload-per-sec",
                "rate",
                "The maximum number of bundles unloaded per second.",
                Kind.NUMBER,
            ),
            Flag("-f --forced-terminate-topic", "force", "Close topics that do not end by themselves.", Kind.SWITCH),
        ),
    ),
)

BROKER_STATS: Final = Resource(
    "broker-stats",
    "Stats of the broker at the address.",
    (
        command("load-report", "Show the load report of the broker.", request(routes.GET_LOAD_REPORT)),
        command("topics", "Show the stats of all topics of the broker.", _topics, _INDENT, aliases=("destinations",)),
        command("monitoring-metrics", "Show the metrics of the broker's namespaces.", _metrics, _INDENT),
        command(
            "allocator-stats",
            "Show the stats of an allocator.",
            request(routes.GET_ALLOCATOR_STATS),
            Argument("allocator"),
        ),
    ),
)
