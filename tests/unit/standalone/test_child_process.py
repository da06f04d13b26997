"""A child process of a cluster: ready, ended too early, silent, not ending; and the folder that two clusters want."""

import asyncio
import os
import signal
import textwrap
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pulsar_barycenter.standalone.cluster import BrokerProcess, ClusterSettings, StandaloneCluster, read_configuration
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from pulsar_barycenter.standalone.errors import (
    DataDirectoryBusyError,
    DataDirectoryUnusableError,
    NoLockFileError,
    NotReadyError,
    PortRangeError,
    ProcessFailedError,
    SharedPortError,
)
from pulsar_barycenter.standalone.process import ChildProcess

SERVES = """
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready: here", flush=True)
    signal.pause()
"""
STUBBORN = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        signal.pause()
"""
FAILS = """
    import sys
    print("starting", flush=True)
    sys.exit("the disk is gone")
"""
WITH_ITS_OWN_CHILD = """
    import signal, subprocess, sys
    stays = "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"
    started = subprocess.Popen([sys.executable, "-c", stays])
    print(started.pid, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    {ready}
    signal.pause()
"""
SILENT = """
    import signal
    signal.pause()
"""


def child(folder: Path, source: str) -> ChildProcess:
    (folder / "of_a_test.py").write_text(textwrap.dedent(source))
    return ChildProcess("broker-0", ["of_a_test"], folder / "broker-0.log", {"PYTHONPATH": str(folder)})


async def test_a_child_that_serves_ends_in_order(tmp_path: Path) -> None:
    process = child(tmp_path, SERVES)
    assert await process.terminate(timeout_s=1), "it was never started"
    await process.start()
    await process.wait_ready(timeout_s=60)
    assert process.is_running
    assert await process.terminate(timeout_s=60)
    assert (process.is_running, process.exit_code) == (False, 0)


async def test_a_child_that_does_not_end_when_asked_is_ended_at_once(tmp_path: Path) -> None:
    process = child(tmp_path, STUBBORN)
    await process.start()
    await process.wait_ready(timeout_s=60)
    assert not await process.terminate(timeout_s=0.05)
    assert process.exit_code == -9


async def test_a_child_that_ends_before_it_is_ready_is_told_with_its_last_words_of_this_run(tmp_path: Path) -> None:
    process = child(tmp_path, FAILS)
    process.log.write_text("an earlier run\n")
    await process.start()
    with pytest.raises(ProcessFailedError) as caught:
        await process.wait_ready(timeout_s=60)
    assert str(caught.value).startswith(f"broker-0 ended with code 1 before it was ready; its log is {process.log}:")
    assert str(caught.value).endswith("the disk is gone")
    assert "an earlier run" not in str(caught.value)


async def test_a_child_that_says_nothing_is_not_waited_for_without_end(tmp_path: Path) -> None:
    process = child(tmp_path, SILENT)
    await process.start()
    with pytest.raises(NotReadyError, match=r"was not ready within 0\.05 s, and was ended"):
        await process.wait_ready(timeout_s=0.05)
    assert not process.is_running


def test_a_folder_is_held_by_one_cluster(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "data")
    busy = pytest.raises(DataDirectoryBusyError, match=r"in use by another cluster \(process \d+\)")
    with DataDirectoryLock(directory), busy:
        DataDirectoryLock(directory).__enter__()
    with DataDirectoryLock(directory):
        pass


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DataDirectoryUnusableError, match=f"{tmp_path / 'data'} cannot be used"):
        DataDirectoryLock(DataDirectory(tmp_path / "data")).__enter__()
    directory = DataDirectory(tmp_path / "other")
    (directory.root / "cluster.lock").mkdir(parents=True)
    with pytest.raises(DataDirectoryUnusableError, match="Is a directory"):
        DataDirectoryLock(directory).__enter__()


@pytest.mark.parametrize("place", ["link", "hard link", "file"])
def test_a_foreign_file_in_the_locks_place_is_left_as_it_is(tmp_path: Path, place: str) -> None:
    """A link is not followed, a file that is no lock is not cut."""
    directory = DataDirectory(tmp_path / "data")
    directory.create()
    lock, foreign = directory.root / "cluster.lock", tmp_path / "foreign"
    foreign.write_text("4711 is not all that I say\n")
    if place == "link":
        lock.symlink_to(foreign)
    elif place == "hard link":
        lock.hardlink_to(foreign)
    else:
        lock.write_bytes(foreign.read_bytes())
    with pytest.raises(NoLockFileError, match="Move it away"):
        DataDirectoryLock(directory).__enter__()
    assert foreign.read_text() == lock.read_text() == "4711 is not all that I say\n"
    lock.unlink()
    with DataDirectoryLock(directory):
        assert lock.read_text() == f"{os.getpid()}\n"
        assert [each.stat().st_mode & 0o777 for each in (directory.root, lock)] == [0o700, 0o600]


@pytest.mark.parametrize(("web_port", "broker_port"), [(65_535, 6_650), (6_651, 6_650)])
def test_ports_that_overlap_or_do_not_exist_are_refused(tmp_path: Path, web_port: int, broker_port: int) -> None:
    settings = ClusterSettings(DataDirectory(tmp_path), brokers=2, web_port=web_port, broker_port=broker_port)
    with pytest.raises(PortRangeError, match="they must not overlap or exceed 65535"):
        StandaloneCluster(settings).check_ports()


def test_only_ports_that_were_given_are_named_in_the_refusal(tmp_path: Path) -> None:
    settings = ClusterSettings(DataDirectory(tmp_path), brokers=3, web_port=65_535, broker_port=0)
    with pytest.raises(PortRangeError) as caught:
        StandaloneCluster(settings).check_ports()
    assert str(caught.value) == (
        "3 brokers need ports 65535 to 65537: they must not overlap or exceed 65535. Choose another --web-port."
    )


def test_ports_that_the_system_chooses_are_not_checked(tmp_path: Path) -> None:
    settings = ClusterSettings(
        DataDirectory(tmp_path), brokers=3, web_port=0, broker_port=0, configuration={"webServicePortTls": "0"}
    )
    cluster = StandaloneCluster(settings)
    cluster.check_ports()
    assert [(broker.web_port, broker.broker_port) for broker in cluster.brokers] == [(0, 0)] * 3


def test_a_port_that_the_system_chose_is_kept_for_the_next_start(tmp_path: Path) -> None:
    """Clients and the other brokers know the broker by it. Ports that were given stay as they were given."""
    directory = DataDirectory(tmp_path)
    directory.create()
    given = {"brokerServicePortTls": "0", "webServicePortTls": "4444"}
    broker = BrokerProcess(0, ClusterSettings(directory, web_port=0, broker_port=6650, configuration=given))
    broker.serves(
        '{"event":"ready","broker":"b:5001","pid":1,"data":"/d","brokerUrl":"pulsar://inside:7","webUrl":"http://b:5001",'
        '"brokerUrlTls":"pulsar+ssl://b:5002","webUrlTls":"https://b:4444"}'
    )
    broker.write_configuration()
    written = read_configuration(broker.configuration_file)
    keys = ("webServicePort", "brokerServicePort", "brokerServicePortTls", "webServicePortTls")
    assert [written[key] for key in keys] == ["5001", "6650", "5002", "4444"]
    assert broker.broker_id == "127.0.0.1:5001"


async def test_a_signal_to_a_child_that_just_ended_leaves_its_exit_code(tmp_path: Path) -> None:
    """It has ended, without a notification yet: the loop did not run in between."""
    process = child(tmp_path, SERVES)
    await process.start()
    await process.wait_ready(timeout_s=60)
    assert process.pid is not None
    process.signal(signal.SIGTERM)
    with suppress(ChildProcessError):  # the thread that waits for the loop was quicker
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - the loop is not to run
    process.signal(signal.SIGCONT)
    assert await process.wait() == 0


@pytest.mark.parametrize("key", ["brokerServicePortTls", "webServicePortTls"])
def test_a_port_for_all_brokers_is_refused_for_several(tmp_path: Path, key: str) -> None:
    settings = ClusterSettings(DataDirectory(tmp_path), brokers=2, configuration={key: "6651"})
    with pytest.raises(SharedPortError, match=f"{key}=6651 is one port for 2 brokers"):
        StandaloneCluster(settings).check_ports()


@pytest.mark.parametrize(
    ("pipeline", "given", "logged"),
    [(True, {}, "true"), (False, {}, "false"), (False, {"loadReportLogEnabled": "true"}, "true")],
)
def test_without_a_pipeline_brokers_expect_none(
    tmp_path: Path, pipeline: bool, given: dict[str, str], logged: str
) -> None:
    directory = DataDirectory(tmp_path)
    with DataDirectoryLock(directory):
        broker = BrokerProcess(0, ClusterSettings(directory, pipeline=pipeline, configuration=given))
        broker.write_configuration()
    assert read_configuration(broker.configuration_file)["loadReportLogEnabled"] == logged


@pytest.mark.parametrize("ends_first", [True, False])
@pytest.mark.parametrize("ready", ["print('ready', flush=True)", "pass"])
async def test_a_child_is_killed_with_what_it_started(tmp_path: Path, ready: str, *, ends_first: bool) -> None:
    """The pipeline starts Java, which has the same standard output and may take seconds to see that it is alone."""
    process = child(tmp_path, WITH_ITS_OWN_CHILD.format(ready=ready))
    started: asyncio.Queue[int] = asyncio.Queue()
    await process.start()
    waiting = asyncio.create_task(process.wait_ready(timeout_s=60, on_line=lambda line: started.put_nowait(int(line))))
    pid = await asyncio.wait_for(started.get(), 60)
    try:
        if ready == "pass":
            waiting.cancel()
        await asyncio.wait({waiting})
        async with asyncio.timeout(60):
            if ends_first:
                process.signal(signal.SIGTERM)
            while ends_first and process.is_running:
                await asyncio.sleep(0)
            await process.kill()
            while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
