"""Every verb of Pulsar's own `pulsar-admin`, on Apache Pulsar and on brokers of ours: the same outcome and answer.

The lines in tests/data/admin_verbs run in one JVM, first on one cluster, then on the other, which nobody used before.
Verbs that differ have a reason in reasons.toml, or the test fails. `--peer-write` writes what was seen into
docs/compatibility.md; without it the test fails if the page says otherwise.

Maven Central has the tools of 4.0.8 and 5.0.1. The first one is run on the newest 4.x broker, the other one on 5.0.1.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.admin_tool import VERSIONS, admin_tool, tool_class_path
from support.admin_verbs import Played, Seen, compare, play, read_lines, read_reasons, table, unexplained, with_section
from support.apache_pulsar import QUICK, apache_pulsar
from support.apache_pulsar_5 import VERSION as VERSION_5
from support.http_record import recorded
from support.numbered_messages import stock_client
from support.running_cluster import running_cluster

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

DATA = Path(__file__).parents[1] / "data" / "admin_verbs"
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
KEYS = {"forceDeleteNamespaceAllowed": "true", "forceDeleteTenantAllowed": "true"}


@contextmanager
def apache(folder: Path, version: str) -> Iterator[dict[str, str]]:
    java_and_jars = tool_class_path(version) if version == VERSION_5 else None
    deployment = replace(
        QUICK, has_tls=False, maps_classes=version != VERSION_5
    )  # Java 25 crashes when it writes a map
    with apache_pulsar(
        folder, brokers=1, configuration=KEYS, deployment=deployment, java_and_jars=java_and_jars
    ) as cluster:
        (only,) = cluster.brokers
        yield {"{web}": only.web_url, "{wire}": only.service_url, "{broker}": only.broker_id, "{cluster}": "c1"}


@asynccontextmanager
async def barycenter(folder: Path) -> AsyncIterator[dict[str, str]]:
    async with running_cluster(folder, brokers=1, configuration=KEYS) as (cluster, _):
        only = cluster.brokers[0]
        yield {"{web}": only.web_url, "{wire}": only.service_url, "{broker}": only.broker_id, "{cluster}": "standalone"}


def played(
    version: str, places: dict[str, str], file: Path = DATA / "lines.txt"
) -> tuple[list[tuple[str, str]], list[Played]]:
    """Run the lines at a cluster; return the verbs of the tool, and what came of the lines."""

    def produce(topic: str, count: int) -> int:
        client = stock_client(places["{wire}"])
        producer = client.create_producer(topic, batching_enabled=False)
        sent = [producer.send(b"message %d" % number) for number in range(count)]
        client.close()
        return int(sent[0].ledger_id())

    with (
        tempfile.TemporaryDirectory() as scratch,
        recorded(places["{web}"]) as record,
        admin_tool(version, record.url) as tool,
    ):
        known = {**places, "{data}": str(DATA), "{scratch}": scratch, "{relay}": record.url}
        return tool.verbs(), play(read_lines(file), tool, record, known, produce)


async def ours(folder: Path, version: str) -> list[Played]:
    async with barycenter(folder) as places:
        return (await asyncio.to_thread(played, version, places))[1]


def seen(folders: pytest.TempPathFactory, version: str) -> Seen:
    with apache(folders.mktemp("apache"), version) as places:
        verbs, theirs = played(version, places)
    here = asyncio.run(ours(folders.mktemp("barycenter"), version))
    return compare(version, (" ".join(verb) for verb in verbs), here, theirs)


@pytest.fixture(scope="module")
def all_seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    return [seen(tmp_path_factory, version) for version in VERSIONS]


def test_verbs_that_differ_have_a_reason(all_seen: list[Seen]) -> None:
    reasons = read_reasons(DATA / "reasons.toml")
    missing = [f"{one.version}: {told}" for one in all_seen for told in unexplained(one, reasons)]
    assert not missing, "\n".join(missing)


def test_each_verb_asks_a_broker_while_it_runs_or_is_named(all_seen: list[Seen]) -> None:
    unheard = {verb for one in all_seen for verb in one.unheard}
    assert unheard <= set((DATA / "ask_nobody.txt").read_text().splitlines()), unheard


def test_the_page_says_what_was_seen(all_seen: list[Seen], request: pytest.FixtureRequest) -> None:
    page = with_section(PAGE.read_text(), table(all_seen, read_reasons(DATA / "reasons.toml")))
    if request.config.getoption("--peer-write"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "make compatibility writes the page anew"
