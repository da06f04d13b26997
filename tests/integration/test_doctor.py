"""What `barycenter doctor` finds in clusters of processes: nothing in healthy ones, and each fault that is made."""

import asyncio
import signal
import sqlite3
import sys
import uuid
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.standalone.cluster import StandaloneCluster
from pulsar_barycenter.standalone.data_directory import DataDirectory
from support.etcd_server import shared_etcd
from support.oxia_server import shared_oxia
from support.running_cluster import QUICK, Admin, eventually, running_cluster
from support.zookeeper_server import shared_zookeeper

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble"), pytest.mark.drawn_tests(3)]

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
EXTENSIBLE = {"loadManagerClassName": ManagerKind.EXTENSIBLE.class_name}
MANAGERS = {
    "modular": {"loadManagerClassName": ManagerKind.MODULAR.class_name},
    "simple": {"loadManagerClassName": ManagerKind.SIMPLE.class_name},
    "extensible, records in a topic": EXTENSIBLE,
    "extensible, records in the store": {
        **EXTENSIBLE,
        "loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
    },
}
HEALTHY, SICK, BLIND = 0, 1, 2
SPACE = "public/looked-at"


async def doctor(*words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Return how the command ended, the lines that it printed, and what it said of errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "doctor", "--json", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, [msgspec.json.decode(line) for line in out.splitlines()], err.decode()


def findings(lines: list[dict[str, Any]], *severities: str) -> dict[str, list[dict[str, Any]]]:
    """Return the findings by check, those of the given severities or all."""
    by_check: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if line["kind"] == "finding" and (not severities or line["severity"] in severities):
            by_check.setdefault(line["check"], []).append(line)
    return by_check


def store_url(folder: Path) -> str:
    return f"sqlite:{DataDirectory(folder).metadata}"


def both(cluster: StandaloneCluster, folder: Path, broker: int = 0) -> tuple[str, ...]:
    return "--url", cluster.brokers[broker].web_url, "--store", store_url(folder), *files(folder)


def files(folder: Path) -> tuple[str, ...]:
    """The ledgers, and a broker.conf with nothing odd in it."""
    conf = folder / "doctor-broker.conf"
    conf.write_text("clusterName=standalone\n")
    return "--ledgers", str(folder / "ledgers"), "--config", str(conf)


async def used(admin: Admin, name: str = SPACE) -> None:
    """Make a namespace of four bundles and give each topic of a few an owner."""
    await admin.create_namespace(name, 4)
    for number in range(6):
        await admin.owner(f"persistent://{name}/topic-{number}")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("manager", MANAGERS.values(), ids=MANAGERS)
async def test_of_a_healthy_cluster_it_has_nothing_to_mend(tmp_path: Path, manager: Mapping[str, str]) -> None:
    configuration = {"metadataStoreSessionTimeoutMillis": "3000", **manager}
    async with running_cluster(tmp_path, brokers=2, configuration=configuration) as (cluster, admin):
        await used(admin)
        ended, lines, errors = await doctor(*both(cluster, tmp_path))
        assert (ended, findings(lines, "warning", "error", "critical"), errors) == (HEALTHY, {}, "")
        assert [line for line in lines if line["kind"] == "notLookedAt"] == []
        assert set(findings(lines)) <= {"unowned", "late-pipeline"}


async def test_made_faults_are_found(tmp_path: Path) -> None:
    """A lock of a broker that is not there, boundaries with a hole, an unknown dynamic key; and a stopped store."""
    async with running_cluster(tmp_path, configuration=QUICK) as (cluster, admin):
        await used(admin)
        await admin.create_namespace("public/torn", 4)
        database = Path(store_url(tmp_path).removeprefix("sqlite:"))
        lock = {"brokerId": "gone:8080", "httpUrl": "http://gone:8080", "nativeUrl": "pulsar://gone:6650"}
        torn = {"bundles": {"boundaries": ["0x00000000", "0x40000000", "0xc0000000"], "numBundles": 2}}
        put(database, "/namespace/public/torn/0x00000000_0x40000000", lock)
        put(database, "/admin/local-policies/public/torn", torn)
        put(database, "/admin/configuration", {"loadBalancerShedingEnabled": "true"})

        ended, lines, _ = await doctor(*both(cluster, tmp_path))
        found = findings(lines, "warning", "error", "critical")
        assert ended == SICK
        assert [each["subject"] for each in found["owner-gone"]] == ["public/torn/0x00000000_0x40000000"]
        assert [each["subject"] for each in found["tiling"]] == ["public/torn"]
        assert [each["subject"] for each in found["unknown-override"]] == ["loadBalancerShedingEnabled"]
        assert "loadBalancerSheddingEnabled" in found["unknown-override"][0]["sentence"]

        ended, lines, _ = await doctor("--url", cluster.brokers[0].web_url, "--check", "tiling")
        assert (ended, set(findings(lines))) == (SICK, {"tiling"}), "brokers alone tell it, too"
        assert (await doctor(*both(cluster, tmp_path), "--check", "few-bundles"))[0] == HEALTHY

    ended, lines, _ = await doctor("--store", store_url(tmp_path))
    assert ended == SICK
    assert {"owner-gone", "tiling", "unknown-override"} <= set(findings(lines, "warning", "error", "critical"))
    assert any(line["kind"] == "notLookedAt" and line["what"] == "silent-broker" for line in lines)
    assert (await doctor("--store", f"sqlite:{tmp_path}/nothing"))[0] == BLIND


@pytest.mark.parametrize("kind", ["zookeeper", pytest.param("etcd", marks=pytest.mark.full_form), "oxia"])
async def test_a_store_of_several_machines_is_read_as_a_file_is(tmp_path: Path, kind: str) -> None:
    """Nothing is found in a healthy cluster, and each fault that is made in the store, brokers running and stopped."""
    servers = {
        "zookeeper": lambda: (shared_zookeeper().url, "zk:127.0.0.1:9"),
        "etcd": lambda: (f"etcd:{shared_etcd().url}", "etcd:http://127.0.0.1:9"),
        "oxia": lambda: (f"oxia:{shared_oxia().url}", "oxia://127.0.0.1:9"),
    }
    server, nobody = servers[kind]()
    url = f"{server}/doctor-{uuid.uuid4().hex}"
    store = await open_store(url)
    ledgers = ("--store", url, *files(tmp_path))
    async with running_cluster(tmp_path, brokers=2, configuration=QUICK, metadata_store_url=url) as (cluster, admin):
        await used(admin)
        asked = ("--url", cluster.brokers[0].web_url, *ledgers)
        ended, lines, errors = await doctor(*asked)
        assert (ended, findings(lines, "warning", "error", "critical"), errors) == (HEALTHY, {}, "")
        assert [line for line in lines if line["kind"] == "notLookedAt"] == []

        lock = {"brokerId": "gone:8080", "httpUrl": "http://gone:8080", "nativeUrl": "pulsar://gone:6650"}
        bundles = {"bundles": {"boundaries": ["0x00000000", "0x40000000", "0xc0000000"], "numBundles": 2}}
        await store.put("/namespace/public/default/0x00000000_0x40000000", msgspec.json.encode(lock))
        await store.put("/admin/local-policies/public/torn", msgspec.json.encode(bundles))
        await store.put("/admin/configuration", b'{"loadBalancerShedingEnabled": "true"}')
        await store.put(FOLDER_KEY, b"0" * 32)
        await store.put("/service_unit_state/public/default/0x00000000_0x40000000", b"not JSON")
        ended, lines, _ = await doctor(*asked)
        found = findings(lines, "warning", "error", "critical")
        assert ended == SICK
        made = {"owner-gone", "tiling", "unknown-override", "ledgers-folder", "unreadable-key"}
        assert made <= set(found), set(found)

    ended, lines, _ = await doctor(*ledgers)
    assert ended == SICK
    found = findings(lines, "warning", "error", "critical")
    assert {"owner-gone", "tiling", "unknown-override", "ledgers-folder"} <= set(found)
    await store.close()
    ended, lines, errors = await doctor("--store", nobody)
    assert (ended, lines) == (BLIND, [])
    assert "cannot check" in errors


async def test_a_broker_that_is_killed_or_stands_still_is_found(tmp_path: Path) -> None:
    configuration = {**QUICK, "metadataStoreSessionTimeoutMillis": "20000"}
    async with running_cluster(tmp_path, configuration=configuration) as (cluster, admin):
        await used(admin)
        killed, still, asked = sorted(cluster.brokers, key=lambda broker: broker.index == 0)
        await cluster.kill_broker(killed)
        still.signal(signal.SIGSTOP)
        try:
            ended, lines, _ = await doctor("--url", asked.web_url, "--timeout", "2", "--fail-at", "error")
        finally:
            still.signal(signal.SIGCONT)
        assert ended == SICK
        found = findings(lines)
        silent = {each["subject"] for each in found["silent-broker"]}
        assert still.broker_id in silent
        there = await admin.expect(200, "GET", "/admin/v2/brokers", broker=asked.index)
        assert killed.broker_id in silent or killed.broker_id not in there, "unless its session has ended meanwhile"

        async def is_over() -> bool:
            _, lines, _ = await doctor("--url", asked.web_url, "--check", "silent-broker")
            return findings(lines) == {}

        await eventually(is_over, within_s=60, what="the killed broker's registration ends with its session")


async def test_where_nobody_answers_it_says_that_it_could_not_look(tmp_path: Path) -> None:
    ended, lines, errors = await doctor("--url", "http://127.0.0.1:9", "--timeout", "1")
    assert (ended, lines) == (BLIND, [])
    assert "cannot check" in errors


def put(database: Path, path: str, value: Any) -> None:
    """Write a key into the file beside all brokers, as a tool would; watchers hear of it."""
    with closing(sqlite3.connect(database, timeout=10)) as db, db:
        encoded = msgspec.json.encode(value)
        updated = db.execute("UPDATE keys SET value = ?, version = version + 1 WHERE path = ?", (encoded, path))
        kind = "modified"
        if not updated.rowcount:
            db.execute("INSERT INTO keys VALUES (?, ?, 0, 0, 0, 0, 0)", (path, encoded))
            kind = "created"
            while path != "/":
                parent, _, name = path.rpartition("/")
                db.execute("INSERT OR IGNORE INTO tree VALUES (?, ?)", (parent or "/", name))
                path = parent or "/"
        db.execute("INSERT INTO changes (type, path) VALUES (?, ?)", (kind, path))
