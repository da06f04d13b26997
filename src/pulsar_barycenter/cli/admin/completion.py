"""Completes names of the cluster in a shell: tenants, namespaces, topics, clusters and brokers.

A shell asks at each press of the key. If the cluster does not answer soon, there are no suggestions, and no error.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import click

from pulsar_barycenter.admin.client_conf import ClientConf, ClientConfError
from pulsar_barycenter.admin.commands.session import ClusterSession
from pulsar_barycenter.admin.commands.table import Session, send
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.admin.routes.brokers import LIST_BROKERS
from pulsar_barycenter.admin.routes.clusters import LIST_CLUSTERS
from pulsar_barycenter.admin.routes.namespaces import LIST_NAMESPACES
from pulsar_barycenter.admin.routes.tenants import LIST_TENANTS
from pulsar_barycenter.admin.routes.topics import LIST_TOPICS
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName

MAX_OFFERED: Final = 1_000
_WITHIN_S: Final = 2.0
_PERSISTENT: Final = "persistent://"

Offer = Callable[[click.Context, click.Parameter, str], list[str]]
ConfOf = Callable[[click.Context], ClientConf]


def offers(kind: str, conf_of: ConfOf) -> Offer | None:
    """Return the function that completes names of a kind (`tenant`, `namespace`, `topic`, `cluster`, `broker`); None
    for other kinds.
    """
    if kind not in _ASKED:
        return None

    def offer(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        try:
            names = asyncio.run(_names(conf_of(context), kind, begun))
        except (AdminRequestError, ClientConfError, InvalidNameError, TimeoutError):
            return []
        return sorted(name for name in names if name.startswith(begun))[:MAX_OFFERED]

    return offer


async def _names(conf: ClientConf, kind: str, begun: str) -> list[str]:
    async with ClusterSession(conf, _WITHIN_S) as session, asyncio.timeout(_WITHIN_S):
        return await _ASKED[kind](session, begun)


async def _tenants(session: Session, _begun: str) -> list[str]:
    return _texts(await send(session, LIST_TENANTS))


async def _namespaces(session: Session, begun: str) -> list[str]:
    """Return the namespaces of the tenant if the user has typed a tenant and the slash after it (`begun`); otherwise
    return tenants, each with a slash.
    """
    tenant, slash, _ = begun.partition("/")
    if not slash:
        return [f"{name}/" for name in await _tenants(session, begun)]
    return _texts(await send(session, LIST_NAMESPACES, {"tenant": tenant}))


async def _topics(session: Session, begun: str) -> list[str]:
    """Return the topics of the namespace that the user typed, with the prefix persistent:// only if the user typed it;
    while the user has not typed a whole namespace, return namespaces instead.
    """
    prefix = _PERSISTENT if begun.startswith(_PERSISTENT) else ""
    rest = begun.removeprefix(prefix)
    if rest.count("/") < 2:
        names = await _namespaces(session, rest)
        return [prefix + name if name.endswith("/") else f"{prefix}{name}/" for name in names]
    namespace = str(NamespaceName.parse(rest.rpartition("/")[0]))
    topics = _texts(await send(session, LIST_TOPICS, {"domain": "persistent", "namespace": namespace}))
    return [prefix + topic.removeprefix(_PERSISTENT) for topic in topics]


async def _clusters(session: Session, _begun: str) -> list[str]:
    return _texts(await send(session, LIST_CLUSTERS))


async def _brokers(session: Session, _begun: str) -> list[str]:
    return _texts(await send(session, LIST_BROKERS))


def _texts(answer: Any) -> list[str]:
    return [name for name in answer if isinstance(name, str)] if isinstance(answer, list) else []


_ASKED: Final[Mapping[str, Callable[[Session, str], Awaitable[list[str]]]]] = {
    "tenant": _tenants,
    "namespace": _namespaces,
    "topic": _topics,
    "cluster": _clusters,
    "broker": _brokers,
    "destination": _brokers,
}
