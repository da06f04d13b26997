"""Pulsar's own `pulsar-admin` and `barycenter admin` on brokers of ours and of Pulsar: the same lines and answers.

The lines are those of the transcript, on a cluster for each tool. Maven Central has the tool up to 4.0.8.
"""

import asyncio
import base64
import os
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.main import main
from support.apache_pulsar import MODULAR, apache_pulsar
from support.maven import Dependency, class_path, java_of
from support.rest_cluster import RestCluster

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data" / "admin"
VERSION = "4.0.8"
NEWER = ("--unload-scope",)
"""Flags that the tool does not have yet; it is typed without."""
NEWER_FIELDS = {"unload_scope"}
_A_FUTURE = "it prints a CompletableFuture, not its value"
DIFFERENT = {
    "topicPolicies get-backlog-quota persistent://shop/clicks/one": "it prints the text of a Java object",
    "topicPolicies get-schema-compatibility-strategy persistent://shop/clicks/one": "it prints null for none",
    "topicPolicies get-dispatcher-pause-on-ack-state-persistent persistent://shop/clicks/one": _A_FUTURE,
    "topicPolicies get-dispatcher-pause-on-ack-state-persistent persistent://shop/clicks/one -a": _A_FUTURE,
    "brokers list": "the tool demands the cluster, newer ones do not",
    "clusters list-failure-domains standalone": "it prints Java's own form of the objects in a map",
    "ns-isolation-policy list standalone": "the same",
    "schemas compatibility shop/clicks/one -f {data}/click.json": "it prints nothing",
    "topics partitioned-lookup shop/clicks/one": "ours says which command to use, too",
    "topics delete shop/clicks/one": "it tells of the failure on standard output, and ends with 0",
}
"""Lines whose outcome is another on purpose, and why."""
DIFFERENT_THERE = DIFFERENT | {
    "clusters get other": "with an update the tool sends defaults of three fields, which Apache Pulsar keeps",
    "namespaces get-anti-affinity-namespaces -p shop -c standalone -g apart": "it asks below /admin, where "
    "Apache Pulsar has nothing any more",
    "namespaces get-anti-affinity-namespaces -c standalone -g apart": "the same",
    "broker-stats allocator-stats default": "figures of the moment, of which brokers of ours have none",
    "namespaces clear-backlog shop/clicks -s late --force": "the broker fails; ours prints its trace without tabs",
}
"""The same on Apache Pulsar."""
REFUSED = (
    "clusters get nowhere",
    "clusters delete nowhere",
    "clusters create standalone --url http://o:8080",
    "clusters get-failure-domain standalone --domain-name none",
    "tenants get nobody",
    "tenants delete nobody",
    "tenants create nobody -c nowhere",
    "namespaces list nobody",
    "namespaces create nobody/none",
    "namespaces create public/default",
    "namespaces delete public/none",
    "namespaces bundles public/none",
    "namespaces topics public/none",
    "namespaces unload public/none",
    "namespaces split-bundle public/default -b 0x00000000_0x00000001",
    "namespaces permissions public/none",
    "namespaces get-deduplication public/none",
    "topics create persistent://public/none/t",
    "topics stats persistent://public/default/none",
    "topics stats-internal persistent://public/default/none",
    "topics subscriptions persistent://public/default/none",
    "topics unload persistent://public/default/none",
    "topics update-partitioned-topic persistent://public/default/none -p 2",
    "topics delete-partitioned-topic persistent://public/default/none",
    "topics unsubscribe persistent://public/default/none -s none",
    "topics compact persistent://public/default/none",
    "brokers update-dynamic-config -c clusterName -v other",
    "brokers update-dynamic-config -c loadBalancerSheddingEnabled -v perhaps",
    "brokers delete-dynamic-config -c nothing",
    "ns-isolation-policy get standalone none",
    "ns-isolation-policy delete standalone none",
)
"""Further lines, about what there is not or must not be."""
_SAID_VARIOUSLY = "Apache Pulsar says it in other words at each place: does not exist, doesn't exist, not found"
OTHER_REASONS = {
    "tenants delete nobody": _SAID_VARIOUSLY,
    "namespaces list nobody": _SAID_VARIOUSLY,
    "namespaces unload public/none": _SAID_VARIOUSLY,
    "topics create persistent://public/none/t": _SAID_VARIOUSLY,
    "topics update-partitioned-topic persistent://public/default/none -p 2": _SAID_VARIOUSLY,
    "topics delete-partitioned-topic persistent://public/default/none": _SAID_VARIOUSLY,
    "namespaces get-anti-affinity-namespaces -c standalone -g apart": "ours name the parameter that is missing",
    **dict.fromkeys(
        (
            "namespaces split-bundle public/default -b 0x00000000_0x00000001",
            "namespaces clear-backlog shop/clicks -b 0x00000000_0x80000000 --force",
            "namespaces clear-backlog shop/clicks -b 0x00000000_0x80000000 -s late --force",
            "namespaces unsubscribe shop/clicks -s gone -b 0x00000000_0x80000000",
        ),
        "Apache Pulsar names only the boundary that is wrong, ours name the bundle",
    ),
    "topics expire-messages shop/clicks/one -s late -t 3600": "ours name every possible cause",
    "topics expire-messages shop/clicks/one -s late -p 3:7": "the same",
    "topics examine-messages shop/clicks/one -i earliest -m 2": "ours name the topic",
    "topics get-message-by-id shop/clicks/one -l 3 -e 7": "ours name the message",
}
"""Lines that brokers of ours refuse in other words than Apache Pulsar's, and why."""
REASON = re.compile(r"^Reason: (.*)", re.MULTILINE | re.DOTALL)
"""What pulsar-admin tells of a broker's refusal, up to its end."""
VOLATILE = "…"
SET = re.compile(r"\[([^\[\]]*)\]")
"""Java's own form of a set, whose order is any."""

Run = Callable[[str], Awaitable[tuple[bool, str, str]]]


def agree(ours: tuple[bool, str, str], theirs: tuple[bool, str, str], *, is_volatile: bool) -> bool:
    """Tell whether both ended alike and printed the same; objects may have their fields in another order, and of fields
    that only one of both knows no value that says anything. Where both failed they give the same reason, if both tell
    one."""
    if not (ours[0] or theirs[0]):
        told = REASON.search(theirs[1] + theirs[2])
        return told is None or told[1].strip() == ours[2].strip().removeprefix("barycenter: ")
    if ours[0] != theirs[0] or is_volatile:
        return ours[0] == theirs[0]
    one, other = (SET.sub(in_order, each[1].rstrip()) for each in (ours, theirs))
    try:
        return one == other or alike(msgspec.json.decode(one), msgspec.json.decode(other))
    except msgspec.DecodeError:
        return False


def holds(ours: str, theirs: str) -> bool:
    """Tell whether a reason has the words of another in their order; ours names what it is about, too, and the mend."""
    words = iter(re.findall(r"[\w'-]+", ours.casefold()))
    return all(word in words for word in re.findall(r"[\w'-]+", theirs.casefold()))


def in_order(found: re.Match[str]) -> str:
    return f"[{', '.join(sorted(found[1].split(', ')))}]"


def alike(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return bool(one == other)
    only = {**one, **other}.keys() - (one.keys() & other.keys()) - NEWER_FIELDS
    return all(alike(one[key], other[key]) for key in one.keys() & other.keys()) and not any(
        one.get(key) or other.get(key) for key in only
    )


def lines() -> list[tuple[str, bool]]:
    """Return the lines of the transcript, and whether what they print differs from run to run."""
    found: list[tuple[str, bool]] = []
    for line in (DATA / "transcript.txt").read_text().splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ ").replace(" --json", ""), False))
        elif line == VOLATILE:
            found[-1] = (found[-1][0], True)
    return [*found, *((line, False) for line in REFUSED)]


@asynccontextmanager
async def broker(folder: Path) -> AsyncIterator[dict[str, str]]:
    """Start a cluster of one, and return what stands for its addresses."""
    cluster = RestCluster()
    try:
        started = await cluster.add(
            load_manager_factory("ModularLoadManagerImpl"),
            barycenter_data_dir=str(folder),
            broker_shutdown_timeout_ms=0,
            force_delete_namespace_allowed=True,
        )
        yield {
            "{broker}": started.broker_id,
            "{web}": str(started.urls.web_url),
            "{wire}": str(started.urls.broker_url),
            "{data}": str(DATA),
        }
    finally:
        await cluster.close()


def ours(url: str) -> Run:
    async def run(line: str) -> tuple[bool, str, str]:
        words = ["admin", "--admin-url", url, *shlex.split(line)]
        with capture_logs():
            result = await asyncio.to_thread(CliRunner().invoke, main, words)
        return result.exit_code == 0, result.stdout, result.stderr

    return run


@asynccontextmanager
async def theirs(url: str) -> AsyncIterator[Run]:
    """Start one JVM that runs line after line.

    Raises:
        PeerUnavailableError: there is no Maven, no network or no JDK.
    """
    jars = await asyncio.to_thread(
        class_path,
        Dependency("org.apache.pulsar:pulsar-client-tools", VERSION),
        versions_of=Dependency("org.apache.pulsar:pulsar", VERSION),
    )
    source = ROOT / "support" / "java" / "AdminLines.java"
    process = await asyncio.create_subprocess_exec(
        *(java_of(17)[0], "-cp", os.pathsep.join(jars), str(source), url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sent, answers = process.stdin, process.stdout

    async def run(line: str) -> tuple[bool, str, str]:
        words = shlex.split(line)
        for flag in NEWER:
            if flag in words:
                place = words.index(flag)
                words[place : place + 2] = []
        sent.write(("\t".join(words) + "\n").encode())
        await sent.drain()
        while len(told := (await answers.readline()).decode().split(" ")) != 3 or not told[1].startswith("="):
            assert told != [""], "the JVM ended"  # a line that some library of theirs logs
        printed, errors = (base64.b64decode(each.strip().removeprefix("=")).decode() for each in told[1:])
        return told[0] == "true", printed, errors

    try:
        yield run
    finally:
        sent.close()
        await process.wait()


async def played(run: Run, line: str, places: dict[str, str]) -> tuple[bool, str, str]:
    """Run a line with addresses put in, and take them out of what it printed."""
    for place, address in places.items():
        line = line.replace(place, address)
    ended, printed, errors = await run(line)
    for place, address in reversed(places.items()):
        printed, errors = printed.replace(address, place), errors.replace(address, place)
    return ended, printed, errors


def required(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes a minute; make peer runs it")


async def test_pulsars_tool_and_ours_print_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    required(request)
    async with (
        broker(tmp_path / "a") as here,
        broker(tmp_path / "b") as there,
        theirs(there["{web}"]) as their_run,
    ):
        our_run = ours(here["{web}"])
        differ = []
        for line, is_volatile in lines():
            one, other = await played(our_run, line, here), await played(their_run, line, there)
            if line not in DIFFERENT and not agree(one, other, is_volatile=is_volatile):
                differ.append(f"$ {line}\n--- ours {one}\n--- pulsar-admin {other}")
        assert not differ, "\n".join(differ)


@asynccontextmanager
async def apache_broker(folder: Path) -> AsyncIterator[dict[str, str]]:
    """Start a cluster of Apache Pulsar with one broker, and return what stands for its addresses and its name."""
    folder.mkdir()
    keys = {"loadManagerClassName": MODULAR, "forceDeleteNamespaceAllowed": "true"}
    running = apache_pulsar(folder, brokers=1, configuration=keys)
    cluster = await asyncio.to_thread(running.__enter__)
    try:
        (only,) = cluster.brokers
        yield {"{broker}": only.broker_id, "{web}": only.web_url, "{wire}": only.service_url} | {
            "{tls}": only.tls_web_url,
            "{data}": str(DATA),
            "standalone": "c1",
        }
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def test_they_print_the_same_of_apache_pulsar(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """One after the other, each on a cluster that nobody has used."""
    required(request)
    async with apache_broker(tmp_path / "a") as places:
        run = ours(places["{web}"])
        one = [await played(run, line, places) for line, _ in lines()]
    async with apache_broker(tmp_path / "b") as places, theirs(places["{web}"]) as run:
        other = [await played(run, line, places) for line, _ in lines()]
    differ = [
        f"$ {line}\n--- ours {ours_said}\n--- pulsar-admin {said}"
        for (line, is_volatile), ours_said, said in zip(lines(), one, other, strict=True)
        if line not in DIFFERENT_THERE and not agree(ours_said, said, is_volatile=is_volatile)
    ]
    succeeded = sum(ended for ended, _, _ in one)
    print(f"{len(one)} lines, of which {succeeded} succeeded, {len(differ)} differ")
    assert succeeded > len(one) / 2
    assert not differ, "\n".join(differ)


async def test_our_brokers_refuse_in_the_words_of_apache_pulsars(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    required(request)
    async with broker(tmp_path / "a") as places:
        here = [await played(ours(places["{web}"]), line, places) for line, _ in lines()]
    async with apache_broker(tmp_path / "b") as places:
        there = [await played(ours(places["{web}"]), line, places) for line, _ in lines()]
    both = zip(lines(), here, there, strict=True)
    refused = [(line, one, other) for (line, _), one, other in both if not (one[0] or other[0])]
    differ = [
        f"$ {line}\n--- ours          {one[2].strip()}\n--- Apache Pulsar {other[2].strip()}"
        for line, one, other in refused
        if line not in OTHER_REASONS and not holds(one[2], other[2])
    ]
    print(f"{len(refused)} lines refused, {len(differ)} in other words")
    assert len(refused) > len(REFUSED) / 2
    assert not differ, "\n".join(differ)
