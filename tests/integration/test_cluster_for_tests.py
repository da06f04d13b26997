"""`pulsar_barycenter.testing`: clusters that tests of other projects start, and what is left of them."""

import asyncio
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pulsar
import pytest
import structlog

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.standalone.cluster import free_ports
from pulsar_barycenter.standalone.errors import DataDirectoryBusyError, StandaloneError
from pulsar_barycenter.testing import (
    AsyncCluster,
    Cluster,
    NotBalancedError,
    NotInProcessError,
    TestClusterError,
    UnknownBrokerError,
)
from support.running_cluster import eventually
from support.stock_client import connect

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster for tests"), pytest.mark.drawn_tests(6)]

TOPIC = "persistent://public/default/orders"


def client_of(cluster: Cluster | AsyncCluster) -> pulsar.Client:
    return connect(cluster.service_url)


def send_and_receive(cluster: Cluster | AsyncCluster, topic: str, text: bytes) -> None:
    client = client_of(cluster)
    try:
        consumer = client.subscribe(topic, "test")
        client.create_producer(topic).send(text)
        message = consumer.receive(timeout_millis=30_000)
        consumer.acknowledge(message)
        assert message.data() == text
    finally:
        client.close()


@pytest.fixture
def unconfigured_log() -> Iterator[None]:
    """A broker in process writes its log to a file only where nobody has configured structlog, as other tests have."""
    was_configured, before = structlog.is_configured(), structlog.get_config()
    structlog.reset_defaults()
    yield
    if was_configured:
        structlog.configure(**before)


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.usefixtures("unconfigured_log")
def test_a_cluster_serves_clients_and_leaves_nothing(in_process: bool) -> None:
    processes = {child.pid for child in psutil.Process().children()}
    threads = set(threading.enumerate())
    with Cluster(in_process=in_process) as cluster:
        folder = cluster.data
        send_and_receive(cluster, TOPIC, b"first")
        cluster.restart(0)
        send_and_receive(cluster, TOPIC, b"second")
        log = cluster.brokers[0].log.read_text()
    assert '"broker_started"' in log
    assert not folder.exists()
    assert {child.pid for child in psutil.Process().children()} <= processes
    assert set(threading.enumerate()) <= threads
    with pytest.raises(TestClusterError, match="does not run"):
        cluster.owner(TOPIC)


@pytest.mark.parametrize("in_process", [False, True])
def test_starts_and_stops_in_a_row_leave_nothing(
    in_process: bool, pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process, port, file descriptor, thread or file; 50 in a row with --cluster-starts 50."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    me = psutil.Process()

    def held() -> tuple[int, int, int]:
        gc.collect()
        return len(me.children(recursive=True)), me.num_fds(), me.num_threads()

    before: tuple[int, ...] | None = None
    for _ in range(1 + pytestconfig.getoption("--cluster-starts")):
        with Cluster(in_process=in_process) as cluster:
            cluster.create_namespace("public/orders")
            urls = [url for broker in cluster.brokers for url in (broker.service_url, broker.web_url)]
        for url in urls:
            with socket.socket() as client, pytest.raises(ConnectionRefusedError):
                client.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        assert list(tmp_path.iterdir()) == []
        before = before or held()  # after the first: what a module opens once stays open
        assert all(now <= then for now, then in zip(held(), before, strict=True)), (held(), before)


async def test_all_methods_by_coroutines_and_a_broker_that_dies() -> None:
    """The names of what can be unloaded, a broker that is paused, and one that is killed and comes back."""
    async with Cluster(brokers=2, config={"loadBalancerSheddingEnabled": False}) as cluster:
        await cluster.create_namespace("public/orders", bundles=2)
        topic = "persistent://public/orders/new"
        owner = await cluster.owner(topic)
        bundle = await cluster.admin("GET", "/lookup/v2/topic/persistent/public/orders/new/bundle")
        for name in (topic, "public/orders", f"public/orders/{bundle}"):
            await asyncio.to_thread(send_and_receive, cluster, topic, name.encode())
            await cluster.unload(name)
        with pytest.raises(AdminRequestError):
            await cluster.unload("public/missing")
        await cluster.wait_until_balanced()

        await cluster.pause(owner)
        await cluster.resume(owner)
        assert (await cluster.owner(topic)).is_running

        killed = await cluster.owner(topic)
        await cluster.kill(killed)
        assert not killed.is_running

        async def has_moved() -> bool:
            return (await cluster.owner(topic)) is not killed

        await eventually(has_moved, within_s=60, what="the other broker owns the bundle")
        await cluster.restart(killed.index)
        assert killed.is_running
        await asyncio.to_thread(send_and_receive, cluster, topic, b"after all")


def test_what_a_cluster_cannot_do_is_refused_by_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TestClusterError, match="at least 1 broker, not 0"):
        Cluster(brokers=0)
    with pytest.raises(TestClusterError, match="in_process runs one broker"):
        Cluster(brokers=2, in_process=True)
    with pytest.raises(TestClusterError, match="use it in a `with` statement"):
        Cluster().unload(TOPIC)
    failed = Cluster(in_process=True, data="/proc/nope")
    with pytest.raises(StandaloneError):
        failed.start()
    failed.stop()
    with Cluster(in_process=True, data=tmp_path) as cluster:
        with pytest.raises(TestClusterError, match="was started already"):
            cluster.start()
        for act in (cluster.kill, cluster.pause, cluster.resume):
            with pytest.raises(NotInProcessError, match="use Cluster"):
                act(0)
        for unknown in (1, -1):
            with pytest.raises(UnknownBrokerError, match="an index from 0 to 0"):
                cluster.restart(unknown)
        with pytest.raises(DataDirectoryBusyError), Cluster(data=tmp_path):
            pass
        cluster.wait_until_balanced()  # one broker is
    assert (tmp_path / "metadata.sqlite").exists(), "a folder of the caller stays"
    assert issubclass(NotBalancedError, TimeoutError)


@pytest.mark.parametrize("in_process", [False, True])
def test_a_program_with_a_fixed_address_gets_its_ports(in_process: bool) -> None:
    first, web = free_ports(2)
    with Cluster(in_process=in_process, broker_port=first, web_port=web) as cluster:
        assert cluster.service_url == f"pulsar://127.0.0.1:{first}"
        assert cluster.admin_url == f"http://127.0.0.1:{web}"
        with pytest.raises(StandaloneError, match=f"{first} is in use"):
            Cluster(in_process=in_process, broker_port=first).start()
        cluster.restart(0)
        assert cluster.admin("GET", "/admin/v2/clusters") == ["standalone"]


IMPORTED = """
import sys
from pulsar_barycenter.testing import Cluster
with Cluster():
    print(*sorted({"aiohttp", "structlog", "rich", "numpy"} & sys.modules.keys()))
"""


def test_a_start_waits_for_no_library_that_it_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


KILLED = """
import signal
from pulsar_barycenter.testing import Cluster
with Cluster({arguments}) as cluster:
    print(cluster.data, flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("arguments", ["brokers=2", "in_process=True"])
async def test_nothing_is_left_of_a_test_process_that_is_killed(arguments: str) -> None:
    program = [sys.executable, "-c", KILLED.format(arguments=arguments)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        assert process.stdout is not None
        folder = Path((await asyncio.to_thread(process.stdout.readline)).strip())
        assert folder.is_dir()
        started = psutil.Process(process.pid).children(recursive=True)
        assert started
        os.kill(process.pid, signal.SIGKILL)

    async def all_gone() -> bool:
        return not folder.exists() and not any(child.is_running() for child in started)

    await eventually(all_gone, within_s=60, what="brokers ended and the folder was removed")


TESTS = """
import pytest

def test_shared_too(barycenter):
    assert len(barycenter.brokers) == 1

@pytest.mark.barycenter(brokers=2, config={"loadBalancerSheddingEnabled": False})
def test_own(barycenter_cluster):
    assert len(barycenter_cluster.brokers) == 2
    settings = barycenter_cluster.admin("GET", "/admin/v2/brokers/configuration/runtime")
    assert settings["loadBalancerSheddingEnabled"] == "false"

@pytest.mark.barycenter(in_process=True)
def test_in_process(barycenter_cluster):
    assert barycenter_cluster.brokers[0].is_running
"""
GUIDE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()


@pytest.mark.drawn(1)
@pytest.mark.parametrize("workers", [0, 2])
def test_the_fixtures_serve_a_project_of_others(tmp_path: Path, workers: int) -> None:
    """As its users have it: the file of tests of the guide and another, folders kept, with and without xdist."""
    of_the_guide, other = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "test_of_the_guide.py").write_text(of_the_guide)
    (tmp_path / "test_more.py").write_text(TESTS)
    kept = tmp_path / "kept"
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--barycenter-keep"),
        *("--rootdir", str(tmp_path), "--basetemp", str(kept), "-n", str(workers), str(tmp_path)),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    logs = list(kept.rglob("broker-0.log"))
    assert logs, "the logs are kept"
    assert all(f"a cluster are in {log.parents[1]}\n" in done.stdout for log in logs), done.stdout
    shown = subprocess.run([sys.executable, "-c", other], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert shown.stdout.startswith("pulsar://127.0.0.1:"), shown.stderr
