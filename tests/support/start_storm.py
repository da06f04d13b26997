"""Many clients that arrive at once: each looks its topics up, follows to their owners, and produces there.

A client that is refused or disconnected tries again after a pause that doubles, as the stock client does. Measured
is the time from the common arrival to the answer that a topic's producer was created: until then the topic is not
served.
"""

import asyncio
import itertools
import random
import resource
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.wire_client import TYPE, WireClient

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 30.0
_MOST_REDIRECTS: Final = 20


@dataclass(slots=True)
class Storm:
    """The result: when each topic was served, in seconds, and the other answers or errors."""

    served_s: dict[str, float] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    owners: dict[str, int] = field(default_factory=dict)
    """The binary port of the broker that serves each topic."""


class _RefusedError(Exception):
    pass


class _Client:
    """Keeps one connection to each broker that it has contacted."""

    def __init__(self, port: int, storm: Storm) -> None:
        self._port = port
        self._storm = storm
        self._connections: dict[int, WireClient] = {}
        self._producers = itertools.count(1)

    async def serve(self, topics: Sequence[str], began: float) -> None:
        """Create a producer of each topic, one after the other, however long that takes."""
        for topic in topics:
            pause_s = _FIRST_PAUSE_S
            while not await self._produces(topic):
                await asyncio.sleep(pause_s * random.uniform(0.9, 1.0))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self._storm.served_s[topic] = asyncio.get_running_loop().time() - began

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def _produces(self, topic: str) -> bool:
        try:
            port = await self._owner(topic)
            connection = await self._connected(port)
            answer = await connection.produce(topic, next(self._producers))
            if not isinstance(answer, api.CommandProducerSuccess):
                raise _RefusedError(api.ServerError.Name(answer.error))
        except _RefusedError as refused:
            self._storm.refusals[str(refused)] += 1
            return False
        except (OSError, TimeoutError, AssertionError) as error:  # the last: hung up on in the midst of a request
            self._storm.refusals[type(error).__name__] += 1
            return False
        self._storm.owners[topic] = port
        return True

    async def _owner(self, topic: str) -> int:
        port, authoritative = self._port, False
        for _ in range(_MOST_REDIRECTS):
            connection = await self._connected(port)
            request = client_requests.lookup(connection.request_id(), topic, authoritative=authoritative)
            _, answer = await connection.ask(request, TYPE.LOOKUP_RESPONSE)
            if answer.response == api.CommandLookupTopicResponse.Failed:
                raise _RefusedError(api.ServerError.Name(answer.error))
            port, authoritative = urlsplit(answer.brokerServiceUrl).port or 0, answer.authoritative
            if answer.response == api.CommandLookupTopicResponse.Connect:
                return port
        raise _RefusedError("redirects without end")

    async def _connected(self, port: int) -> WireClient:
        found = self._connections.get(port)
        if found is None or found.closed.is_set():
            found = self._connections[port] = await WireClient.connect(port)
        return found


def topic_in_each_bundle(namespace: str, bundles: int) -> Iterator[str]:
    """Yield a persistent topic for each of the equal `bundles` of a namespace."""
    of = NamespaceBundles.equal(NamespaceName.parse(namespace), bundles)
    names = (TopicName.parse(f"persistent://{namespace}/t{number}") for number in itertools.count())
    found: set[Bundle] = set()
    while len(found) < bundles:
        topic = next(names)
        bundle = of.find(topic)
        if bundle not in found:
            found.add(bundle)
            yield str(topic)


async def start_storm(ports: Sequence[int], topics: Sequence[str], clients: int) -> Storm:
    """Let `clients` arrive at once at the brokers at these ports, with a share of the topics each; return when all
    are served. A client without a share takes a topic of another client."""
    _allow_connections(clients * len(ports))
    storm = Storm()
    came = [_Client(ports[number % len(ports)], storm) for number in range(clients)]
    shares = [topics[number::clients] or [topics[number % len(topics)]] for number in range(clients)]
    began = asyncio.get_running_loop().time()
    try:
        await asyncio.gather(*(client.serve(share, began) for client, share in zip(came, shares, strict=True)))
    finally:
        for client in came:
            client.close()
    return storm


def sessions_lost(logs: Iterable[Path]) -> int:
    """Return how often the brokers that write these logs lost their registration."""
    return sum(log.read_text(errors="replace").count('"registration_lost"') for log in logs)


def _allow_connections(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # the system allows fewer
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 1_000)), hard))
