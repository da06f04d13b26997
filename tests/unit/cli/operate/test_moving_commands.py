"""`barycenter move` and `barycenter execute` on brokers with their REST."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from barycenter.broker.load_manager.factory import load_manager_factory
from barycenter.cli.main import main
from barycenter.config.broker_config import BrokerConfig
from support.rest_cluster import RestCluster

OK, FAILED, WRONG = 0, 1, 2


async def run(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, list(words))


@asynccontextmanager
async def two_brokers(tmp_path: Path) -> AsyncIterator[RestCluster]:
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(
                load_manager_factory("ModularLoadManagerImpl"),
                barycenter_data_dir=str(tmp_path),
                load_balancer_shedding_enabled=False,
                broker_shutdown_timeout_ms=0,
            )
        await cluster.create_namespace(bundles=4)
        yield cluster
    finally:
        await cluster.close()


async def served(cluster: RestCluster) -> dict[str, str]:
    """Who serves which bundle of the namespace."""
    found = {}
    for broker in cluster.brokers:
        path = f"/admin/v2/brokers/{BrokerConfig().cluster_name}/{broker.broker_id}/ownedNamespaces"
        owned = (await cluster.expect(200, "GET", path, at=broker)).json
        found |= {bundle: broker.broker_id for bundle in owned if bundle.startswith("public/ns/")}
    return found


async def test_a_bundle_is_moved_when_meant_and_is_served_then(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        owner = await cluster.owner("persistent/public/ns/t")
        ((bundle, source),) = (await served(cluster)).items()
        assert source == owner.broker_id
        (other,) = [broker for broker in cluster.brokers if broker is not owner]
        words = ("move", bundle, "--to", other.broker_id, "--url", str(owner.urls.web_url))

        shown = await run(*words)
        assert (shown.exit_code, await served(cluster)) == (OK, {bundle: source})
        assert "nothing is done without --yes" in shown.stdout

        done = await run(*words, "--yes")
        assert (done.exit_code, await served(cluster)) == (OK, {bundle: other.broker_id})
        assert f"served by {other.broker_id}" in done.stdout
        assert "already" in (await run(*words, "--yes")).stdout


async def test_a_bundle_that_nobody_has_used_can_be_moved(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        bundle = "public/ns/0x40000000_0x80000000"
        for broker in cluster.brokers:
            words = ("move", bundle, "--to", broker.broker_id, "--url", str(broker.urls.web_url), "--yes")
            assert (await run(*words)).exit_code == OK
            assert await served(cluster) == {bundle: broker.broker_id}


async def test_what_cannot_be_moved_is_said(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        url = str(cluster.brokers[0].urls.web_url)
        nobody = await run("move", "public/ns/0x40000000_0x80000000", "--to", "nobody:1", "--url", url, "--yes")
        assert nobody.exit_code == FAILED
        assert "nobody:1 is not registered" in nobody.stderr
        assert cluster.brokers[0].broker_id in nobody.stderr
        to = ("--to", cluster.brokers[0].broker_id, "--url", url, "--yes")
        assert (await run("move", "public/ns", *to)).exit_code == WRONG
        assert (await run("move", "public/ns/0x11111111_0x22222222", *to, "--timeout", "1")).exit_code == FAILED
        assert (await run("move", "public/ns/0_1", "--to", "a:1", "--url", "http://127.0.0.1:9")).exit_code == FAILED


async def test_a_plan_is_carried_out_and_gone_on_with(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        for number in range(20):
            await cluster.owner(f"persistent/public/ns/t{number}")
        before = await served(cluster)
        assert len(before) == 4
        ids = {broker.broker_id for broker in cluster.brokers}
        moves = [
            {"kind": "unload", "bundle": bundle, "source": source, "destination": (ids - {source}).pop()}
            for bundle, source in before.items()
        ]
        plan, url = tmp_path / "plan.jsonl", str(cluster.brokers[0].urls.web_url)
        plan.write_bytes(b"\n".join(map(msgspec.json.encode, moves)))
        words = ("execute", str(plan), "--url", url, "--per-minute", "6000")

        shown = await run(*words)
        assert (shown.exit_code, await served(cluster)) == (OK, before)
        assert not plan.with_name("plan.jsonl.journal").exists()

        done = await run(*words, "--yes", "--at-once", "2")
        assert done.exit_code == OK, done.output
        assert await served(cluster) == {move["bundle"]: move["destination"] for move in moves}
        journal = plan.with_name("plan.jsonl.journal").read_bytes().splitlines()
        assert [msgspec.json.decode(line)["state"] for line in journal].count("served") == 4

        again = await run(*words, "--yes")
        assert (again.exit_code, "4 of them done already" in again.stdout) == (OK, True)

        plan.with_name("plan.jsonl.journal").write_bytes(b"\n".join(journal[:2]) + b"\n")
        rest = await run(*words, "--yes")
        assert rest.exit_code == OK, "what the cluster has made already counts as done"


@pytest.mark.parametrize(("text", "words"), [("", "no move"), ("{}", "no move"), ("{", "line 1")])
async def test_what_is_no_plan_is_said(tmp_path: Path, text: str, words: str) -> None:
    plan = tmp_path / "plan.jsonl"
    plan.write_text(text)
    told = await run("execute", str(plan), "--yes")
    assert told.exit_code == FAILED
    assert words in told.stderr
