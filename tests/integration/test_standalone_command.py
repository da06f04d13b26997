"""`barycenter standalone` as a person types it: ready line, orderly end, refusals that say what to do."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.cli.ask.explain import command as explain
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.standalone.cluster import free_ports
from support.authorities import Authority
from support.zookeeper_server import shared_zookeeper

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster"), pytest.mark.drawn_tests(12)]


_OWNED = "/admin/v2/brokers/standalone/{}/ownedNamespaces"


def arguments(folder: Path, web: int, broker: int, *more: str) -> list[str]:
    ports = ["--web-port", str(web), "--broker-port", str(broker)]
    return ["standalone", "--brokers", "2", "--no-pipeline", "--data", str(folder), *ports, *more]


async def start(*words: str, environment: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pulsar_barycenter", *words, stdout=pipe, stderr=pipe, env=environment
    )


async def refusal(*words: str) -> str:
    """Run a command that must fail and return what it says on standard error."""
    process = await start(*words)
    _, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode not in {0, None}
    return said.decode()


@asynccontextmanager
async def standalone(folder: Path, *more: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str, list[int]]]:
    """Run a cluster; give its process, its ready line and its ports. Whatever is left is ended at once."""
    ports = free_ports(4)
    process = await start(*arguments(folder, ports[0], ports[2], *more))
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        yield process, line.decode(), ports
    finally:
        for child in [*children(process), process.pid]:
            if psutil.pid_exists(child):
                os.kill(child, signal.SIGKILL)
        await process.wait()


async def said_until(process: asyncio.subprocess.Process, part: str) -> str:
    """Read standard error until a line with `part`, and return that line."""
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        if part in line:
            return line
    raise AssertionError(f"it ended without {part!r}")


def children(process: asyncio.subprocess.Process) -> list[int]:
    if process.returncode is not None:
        return []
    return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_cluster_in_order_and_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    async with standalone(tmp_path) as (process, line, ports):
        assert line.startswith("ready: pulsar://127.0.0.1:")
        assert str(ports[2]) in line
        brokers = children(process)
        assert len(brokers) == 2
        process.send_signal(number)
        assert await asyncio.wait_for(process.wait(), 60) == 0
        assert [pid for pid in brokers if is_running(pid)] == []
        logs = "".join(log.read_text() for log in tmp_path.glob("logs/broker-*.log"))
        assert logs.count('"broker_left"') == 2


async def test_its_metadata_may_be_in_another_store(tmp_path: Path) -> None:
    url = f"{shared_zookeeper().url}/standalone-{uuid.uuid4().hex}"
    async with standalone(tmp_path, "--metadata-store", url) as (_, line, ports):
        assert line.startswith("ready: ")
        store = await open_store(url)
        names = await store.children("/loadbalance/brokers")
        await store.close()
        assert sorted(names) == [f"127.0.0.1:{port}" for port in ports[:2]]
        assert not (tmp_path / "metadata.sqlite").exists()
        assert (tmp_path / "ledgers" / "identity").exists()


@pytest.mark.parametrize(
    ("url", "said_of_it"),
    [
        ("memory:m", "works within one process only"),
        ("zk:nowhere", "expected sqlite:PATH"),
        ("zk:me:secret@host:1", "expected"),
    ],
)
async def test_a_store_that_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, url: str, said_of_it: str
) -> None:
    said = await refusal("standalone", "--data", str(tmp_path / "data"), "--metadata-store", url)
    assert said_of_it in said
    assert "secret" not in said
    assert "Traceback" not in said
    assert not (tmp_path / "data").exists()


async def test_brokers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (process, _, _ports):
        brokers = children(process)
        process.kill()
        await process.wait()
        async with asyncio.timeout(30):
            while any(is_running(pid) for pid in brokers):
                await asyncio.sleep(0.05)


async def test_a_second_cluster_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (process, _, _ports):
        other = free_ports(4)
        said = await refusal(*arguments(tmp_path, other[0], other[2]))
        assert f"in use by another cluster (process {process.pid})" in said
        assert "--data" in said


async def test_a_port_in_use_is_named_with_the_option_that_mends_it(tmp_path: Path) -> None:
    ports = free_ports(4)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", ports[3]))
        taken.listen()
        said = await refusal(*arguments(tmp_path, ports[0], ports[2]))
    assert f"127.0.0.1:{ports[3]} is in use" in said
    assert "--broker-port" in said


async def test_a_bad_value_in_the_configuration_is_named_with_its_range(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("loadBalancerSheddingIntervalMinutes=often\n")
    ports = free_ports(4)
    said = await refusal(*arguments(tmp_path / "data", ports[0], ports[2], "--config", str(conf)))
    assert "loadBalancerSheddingIntervalMinutes" in said
    assert "often" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "said_of_it"),
    [
        (b"brokerServicePort\n", "line 1: the line 'brokerServicePort' is not of the form key=value"),
        (b"\xff\xfe\x00", "not a text file"),
    ],
)
async def test_a_file_that_is_no_broker_conf_is_refused_in_a_sentence(
    tmp_path: Path, text: bytes, said_of_it: str
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_bytes(text)
    for words in (["broker"], ["standalone", "--data", str(tmp_path / "data")]):
        said = await refusal(*words, "--config", str(conf))
        assert said_of_it in said
        assert "Traceback" not in said


async def test_ports_that_overlap_or_do_not_exist_are_refused_before_anything_starts(tmp_path: Path) -> None:
    for web, broker in ((65_535, 30_000), (30_000, 30_001)):
        said = await refusal(*arguments(tmp_path, web, broker))
        assert "must not overlap or exceed 65535" in said


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ports = free_ports(4)
    said = await refusal(*arguments(tmp_path / "file" / "data", ports[0], ports[2]))
    assert f"{tmp_path / 'file' / 'data'} cannot be used" in said
    assert "Traceback" not in said


async def test_a_damaged_metadata_file_is_named_and_earlier_runs_are_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "metadata.sqlite").write_bytes(b"not a database" * 100)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "broker-0.log").write_text("something from long ago\n")
    ports = free_ports(4)
    said = await refusal(*arguments(tmp_path, ports[0], ports[2]))
    assert "metadata.sqlite" in said
    assert "long ago" not in said
    assert "Traceback" not in said


async def test_a_broker_that_does_not_start_ends_the_command_with_its_last_words(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("loadBalancerLoadSheddingStrategy=org.example.Unknown\n")
    ports = free_ports(4)
    said = await refusal(*arguments(tmp_path / "data", ports[0], ports[2], "--config", str(conf)))
    assert "before it was ready" in said
    assert "org.example.Unknown" in said
    assert "Traceback" not in said


async def test_a_broker_that_was_asked_to_stop_stays_down_until_asked_and_explain_tells_the_hand_over(
    tmp_path: Path,
) -> None:
    async with standalone(tmp_path) as (process, _, ports):
        assert process.stderr is not None
        client = AdminClient()
        url = f"http://127.0.0.1:{ports[0]}"
        try:
            await client.call("GET", url, "/lookup/v2/topic/persistent/public/default/orders")
            owned = "/admin/v2/brokers/standalone/127.0.0.1:{}/ownedNamespaces"
            by_port = {port: await client.call("GET", url, owned.format(port)) for port in ports[:2]}
            port = next(port for port, bundles in by_port.items() if any("public/default/" in each for each in bundles))
            (bundle,) = (each for each in by_port[port] if "public/default/" in each)
            await client.call("POST", f"http://127.0.0.1:{port}", "/admin/v2/brokers/shutdown")
            async with asyncio.timeout(60):
                await said_until(process, f"stopped on request; to start it again: kill -USR1 {process.pid}")
                assert len(children(process)) == 1
                process.send_signal(signal.SIGUSR1)
                await said_until(process, "is back")
        finally:
            await client.close()
    told = CliRunner().invoke(explain, ["--data", str(tmp_path), "--bundle", bundle])
    assert "its broker was asked to leave the cluster and hands it over" in " ".join(told.stdout.split()), told.output


async def test_a_broker_that_failed_is_started_again(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (process, _, _ports):
        assert process.stderr is not None
        os.kill(children(process)[0], signal.SIGKILL)
        async with asyncio.timeout(60):
            await said_until(process, "restarting it")
            await said_until(process, "is back")


async def test_each_step_of_the_start_is_a_line_and_the_first_says_what_to_do_next(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (process, _, ports):
        assert process.stderr is not None
        async with asyncio.timeout(60):
            lines = [await said_until(process, "")]
            while not lines[-1].startswith("next: "):
                lines.append(await said_until(process, ""))
        assert lines[0] == (
            f"starting 2 brokers: when `ready` is printed, connect clients to pulsar://127.0.0.1:{ports[2]}, "
            f"or open http://127.0.0.1:{ports[0]}/; Ctrl-C ends the cluster\n"
        )
        assert [line.partition(":")[0] for line in lines[1:3]] == ["metadata", "metadata"]
        assert sorted(lines[3:5]) == ["broker-0: starting\n", "broker-1: starting\n"]
        assert sorted(line.partition(" after")[0] for line in lines[5:7]) == ["broker-0: ready", "broker-1: ready"]
        assert f"barycenter status --url http://127.0.0.1:{ports[0]}" in lines[7]


async def test_the_system_chooses_ports_and_the_folder_and_a_program_is_told_which(tmp_path: Path) -> None:
    """The folder is gone at the end; a broker that fails comes back at the same ports."""
    authority = Authority(tmp_path)
    paths = authority.issue("server")
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerServicePortTls=0\nwebServicePortTls=0\n"
        f"tlsCertificateFilePath={paths.certificate}\ntlsKeyFilePath={paths.key}\n"
    )
    words = ["--ephemeral", "--no-pipeline", "--brokers", "2", "--web-port", "0", "--broker-port", "0", "--json"]
    process = await start("standalone", *words, "--config", str(conf))
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            ready = json.loads(await process.stdout.readline())
            assert ready["pid"] == process.pid
            assert ready["ephemeral"]
            assert (Path(ready["data"]) / "metadata.sqlite").exists()
            brokers = ready["brokers"]
            urls = [broker[key] for broker in brokers for key in ("brokerUrl", "brokerUrlTls", "webUrl", "webUrlTls")]
            assert len({url.rpartition(":")[2] for url in urls}) == 8
            for url in urls:
                _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
                writer.close()
            assert ready["serviceUrl"] == "pulsar://" + ",".join(
                broker["brokerUrl"].removeprefix("pulsar://") for broker in brokers
            )
            os.kill(brokers[0]["pid"], signal.SIGKILL)
            await said_until(process, "broker-0 is back")
            client = AdminClient()
            try:
                names = await client.call("GET", brokers[0]["webUrl"], "/admin/v2/brokers/standalone")
            finally:
                await client.close()
            assert sorted(names) == sorted(broker["broker"] for broker in brokers)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        for child in [*children(process), process.pid]:
            if psutil.pid_exists(child):
                os.kill(child, signal.SIGKILL)
        await process.wait()
    assert not Path(ready["data"]).exists()


async def test_without_options_the_folder_is_temporary_and_gone_after_ctrl_c() -> None:
    """One broker, as after `pip install`; only the ports are chosen here, as others may use the usual ones."""
    process = await start("standalone", "--web-port", "0", "--broker-port", "0", "--no-pipeline")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            said = [(await process.stderr.readline()).decode() for _ in range(2)]
            ready = (await process.stdout.readline()).decode()
            folder = Path(ready.partition("data in ")[2].partition(", deleted")[0])
            assert (folder / "metadata.sqlite").exists()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    finally:
        for child in [*children(process), process.pid]:
            if psutil.pid_exists(child):
                os.kill(child, signal.SIGKILL)
        await process.wait()
    assert said == [
        "starting a broker: when `ready` is printed, connect clients to the address in that line; "
        "Ctrl-C ends the cluster\n",
        "all data is deleted at the end; to keep it, give --data DIR\n",
    ]
    assert not folder.exists()


async def test_a_cluster_without_numpy_says_so_and_spreads_its_bundles(tmp_path: Path) -> None:
    """As after `pip install` without extras: every process starts with a module that hides numpy."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['numpy'] = None\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    words = ["--ephemeral", "--no-pipeline", "--brokers", "2", "--web-port", "0", "--broker-port", "0", "--json"]
    process = await start("standalone", *words, environment={**os.environ, "PYTHONPATH": path})
    assert process.stdout is not None
    client = AdminClient()
    try:
        async with asyncio.timeout(60):
            line = await said_until(process, "no balancing")
            assert line.endswith("to install it: pip install 'pulsar-barycenter[balance]'\n")
            ready = json.loads(await process.stdout.readline())
            url = ready["webUrls"][0]
            for number in range(8):
                topic = f"/admin/v2/persistent/public/default/t{number}"
                await client.call("PUT", url, topic)
            owned = [
                sum(name.startswith("public/default/") for name in await client.call("GET", web, _OWNED.format(broker)))
                for web, broker in zip(ready["webUrls"], [b["broker"] for b in ready["brokers"]], strict=True)
            ]
            assert min(owned) >= 2, owned
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        await client.close()
        for child in [*children(process), process.pid]:
            if psutil.pid_exists(child):
                os.kill(child, signal.SIGKILL)
        await process.wait()


async def test_folders_that_contradict_each_other_are_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    both = await refusal("standalone", "--ephemeral", "--data", folder)
    assert f"--ephemeral deletes its folder at the end, and --data {folder} names a folder to keep" in both
    for words in (["--ephemeral"], []):
        store = await refusal("standalone", *words, "--metadata-store", "zk:127.0.0.1:2181")
        assert "would stay and name topics without messages" in store
    assert not (tmp_path / "data").exists()


async def test_a_metadata_store_that_does_not_answer_is_named_before_brokers_start(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "metadata.sqlite").write_bytes(b"not a database" * 100)
    ports = free_ports(4)
    said = await refusal(*arguments(tmp_path / "data", ports[0], ports[2]))
    assert "metadata.sqlite could not be opened" in said
    assert "broker-0" not in said


async def test_a_broker_says_which_ports_the_system_chose(tmp_path: Path) -> None:
    """In words, and to a program."""
    paths = Authority(tmp_path).issue("server")
    conf = tmp_path / "broker.conf"
    keys = ("brokerServicePort", "brokerServicePortTls", "webServicePort", "webServicePortTls")
    conf.write_text(
        "".join(f"{key}=0\n" for key in keys)
        + f"tlsCertificateFilePath={paths.certificate}\ntlsKeyFilePath={paths.key}\n"
        + f"barycenterDataDir={tmp_path / 'data'}\n"
    )
    schemes = ("pulsar", "http", "pulsar+ssl", "https")
    said = re.compile(r"ready: (pulsar://\S+) \(web (http://\S+); TLS (pulsar\+ssl://\S+), (https://\S+)\)\n")
    for more in ([], ["--json"]):
        process = await start("broker", "--config", str(conf), *more)
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        if more:
            document = json.loads(line)
            urls = [document[key] for key in ("brokerUrl", "webUrl", "brokerUrlTls", "webUrlTls")]
            assert (document["pid"], document["data"]) == (process.pid, str(tmp_path / "data"))
        else:
            found = said.fullmatch(line)
            assert found is not None, line
            urls = list(found.groups())
        assert [url.partition("://")[0] for url in urls] == list(schemes)
        ports = [int(url.rpartition(":")[2]) for url in urls]
        assert len(set(ports)) == 4
        for port in ports:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
