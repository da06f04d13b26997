"""Persistent topics that a broker of Apache Pulsar and a broker of Barycenter serve in turn, on one ZooKeeper and the
same bookies: nothing sent is lost, and nothing stored as acknowledged comes again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pulsar_barycenter.config.pulsar_version import VERSIONS
from pulsar_barycenter.doctor.reading.bookies import read_bookies
from support.admin_tool import tool_class_path
from support.apache_pulsar import ApachePulsar, apache_pulsar
from support.apache_pulsar_5 import VERSION as VERSION_5
from support.maven import PeerUnavailableError
from support.running_cluster import eventually, lookup_path, running_cluster
from support.topics_of_both import JAVA_KEYS, PYTHON_KEYS, WITHOUT_TLS, SharedTopic, figures

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

SINGLE, BATCHED, WIDE = "single", "batched", "wide"


class Turns:
    """Topics, and the two sides that serve them in turn."""

    def __init__(self, java: ApachePulsar, folder: Path) -> None:
        self.java = java
        self.folder = folder
        self.topics = {name: SharedTopic(f"persistent://public/hands/{name}") for name in (SINGLE, BATCHED, WIDE)}
        self.figures: dict[str, Any] = {}
        self._phase = 0

    async def each(self, work: Callable[..., None], *arguments: Any, **options: Any) -> None:
        await asyncio.to_thread(work, *arguments, **options)

    async def work(self, url: str, *, is_exact: bool) -> None:
        """Let consumers go on where they were; send, and acknowledge some of all in a pattern of this phase."""
        phase = self._phase
        self._phase += 1
        single, batched, wide = (self.topics[name] for name in (SINGLE, BATCHED, WIDE))
        await self.each(single.consume, url, lambda n: n % 7 in (phase, 5), is_exact=is_exact)
        await self.each(single.send, url, 30)
        await self.each(single.consume, url, lambda n: n % 3 == 0)
        await self.each(batched.consume, url, lambda n: n % 11 == phase, is_exact=is_exact)
        await self.each(batched.send, url, 40, batch=10)
        await self.each(batched.consume, url, lambda n: n % 5 == 2 or 12 <= n < 25)
        await self.each(wide.consume, url, lambda n: n % 200 == phase, is_exact=is_exact)

    async def stats(self, call: Callable[[str], Awaitable[Any]]) -> dict[str, Any]:
        return {name: figures(await call(f"{topic.rest}/internalStats")) for name, topic in self.topics.items()}

    async def java_stats(self) -> dict[str, Any]:
        async def call(path: str) -> Any:
            return await asyncio.to_thread(self.java.expect, 200, "GET", path)

        return await self.stats(call)

    async def java_phase(self, *, is_exact: bool) -> None:
        await self.work(self.java.service_url, is_exact=is_exact)

    async def python_phase(self, *, is_killed: bool, is_exact: bool) -> dict[str, Any]:
        """Start a broker of Barycenter, work on it, and end it; return its figures, those of the start first."""
        async with running_cluster(
            self.folder / f"python-{self._phase}",
            brokers=1,
            configuration=PYTHON_KEYS,
            metadata_store_url=self.java.metadata_url,
        ) as (cluster, admin):
            url = cluster.brokers[0].service_url

            async def call(path: str) -> Any:
                return await admin.expect(200, "GET", path)

            async def is_alone() -> bool:
                try:  # it sends requests to the former broker until the session of that has ended
                    answers = [await admin.call("GET", lookup_path(topic.name)) for topic in self.topics.values()]
                except aiohttp.ClientError:
                    return False
                return all(status == 200 and answer["brokerUrl"] == url for status, answer in answers)

            await eventually(is_alone, within_s=60, what="the broker of Barycenter serves all topics")
            first = await self.stats(call)
            await self.work(url, is_exact=is_exact)
            if is_killed:
                await cluster.kill_broker(cluster.brokers[0])
            else:
                bookies = await read_bookies(self.java.metadata_url, "", "")
                assert (bookies.failure, bookies.lacking) == ("", ())
            last = {} if is_killed else await self.stats(call)
        return {"first": first, "last": last}


@asynccontextmanager
async def java_broker(folder: Path, line: str) -> AsyncIterator[ApachePulsar]:
    java_and_jars = await asyncio.to_thread(tool_class_path, VERSION_5) if line == "5.x" else None
    running = apache_pulsar(
        folder,
        brokers=1,
        configuration=JAVA_KEYS,
        deployment=WITHOUT_TLS,
        java_and_jars=java_and_jars,
    )
    started = await asyncio.to_thread(running.__enter__)
    try:
        yield started
    except BaseException as error:
        error.add_note(started.logs())
        raise
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


@pytest.mark.full_form
@pytest.mark.parametrize("line", VERSIONS)
async def test_topics_go_to_a_python_broker_and_back(line: str, tmp_path: Path) -> None:
    (tmp_path / "java").mkdir()
    try:
        async with java_broker(tmp_path / "java", line) as java:
            await _play(java, tmp_path)
    except PeerUnavailableError as error:
        pytest.fail(str(error))


async def _play(java: ApachePulsar, folder: Path) -> None:
    turns = Turns(java, folder)
    body = {"bundles": {"numBundles": 4}}
    await asyncio.to_thread(java.expect, 204, "PUT", "/admin/v2/namespaces/public/hands", json=body)
    for topic in turns.topics.values():
        await turns.each(topic.subscribe, java.service_url)
    wide = turns.topics[WIDE]
    await turns.each(wide.send, java.service_url, 2_400)
    await turns.each(wide.consume, java.service_url, lambda n: n % 2 == 1)
    await turns.java_phase(is_exact=True)
    before = await turns.java_stats()
    (broker,) = java.brokers
    await asyncio.to_thread(java.stop, broker)

    seen = await turns.python_phase(is_killed=False, is_exact=True)
    assert seen["first"] == before

    await asyncio.to_thread(java.restart, broker)
    assert await turns.java_stats() == seen["last"]
    await turns.java_phase(is_exact=True)
    await asyncio.to_thread(broker.kill)

    await turns.python_phase(is_killed=True, is_exact=False)

    await asyncio.to_thread(java.restart, broker)
    await turns.java_phase(is_exact=False)
    for topic in turns.topics.values():
        await turns.each(topic.read_all, java.service_url)
