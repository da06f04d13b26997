"""`barycenter move` and `barycenter execute` on brokers with their REST."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.cli.operate.carrying_out import journal_of_bundle
from pulsar_barycenter.cluster_logs.decision_log import read_decisions
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.journal import move_journal
from support.rest_cluster import RestCluster

OK, FAILED, WRONG = 0, 1, 2


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of moves are where a command is typed."""
    monkeypatch.chdir(tmp_path)


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
    """Return the broker that serves each bundle of the namespace."""
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
        (journal,) = tmp_path.glob("move-public-ns-0x*.journal")
        assert [entry.state for entry in move_journal(journal).read()] == ["begun", "served"]
        undone = await run("undo", str(journal))
        assert (undone.exit_code, f'"destination":"{source}"' in undone.stdout) == (OK, True)
        assert "already" in (await run(*words, "--yes")).stdout


async def test_a_topic_is_moved_with_its_bundle_and_a_partitioned_one_with_all_of_its_bundles(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/orders")
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/parts/partitions", 8)
        for broker in cluster.brokers:
            url = str(broker.urls.web_url)
            moved = await run("move", "public/ns/orders", "--to", broker.broker_id, "--url", url, "--yes")
            assert moved.exit_code == OK, moved.output
            assert "topic persistent://public/ns/orders is in public/ns/0x" in moved.stdout
            assert await cluster.owner("persistent/public/ns/orders") is broker
        moved = await run("move", "public/ns/parts", "--to", broker.broker_id, "--url", url, "--yes")
        assert moved.exit_code == OK, moved.output
        for index in range(8):
            assert await cluster.owner(f"persistent/public/ns/parts-partition-{index}") is broker
        wrong = await run("move", "public/ns/order", "--to", broker.broker_id, "--url", url, "--yes")
        assert (wrong.exit_code, "did you mean orders?" in wrong.stderr) == (FAILED, True)
        told = read_decisions(tmp_path)
        asked = [each for each in told if each.principal]
        assert asked
        assert all("move by " in each.sentence for each in asked)


async def test_a_bundle_that_nobody_has_used_can_be_moved(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        bundle = "public/ns/0x40000000_0x80000000"
        for broker in cluster.brokers:
            words = ("move", bundle, "--to", broker.broker_id, "--url", str(broker.urls.web_url), "--yes")
            assert (await run(*words)).exit_code == OK
            assert await served(cluster) == {bundle: broker.broker_id}


async def test_a_preview_of_a_move_gives_a_bundle_that_nobody_serves_no_owner(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/orders")
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/unload")
        before = len(read_decisions(tmp_path))
        url, to = str(cluster.brokers[0].urls.web_url), cluster.brokers[1].broker_id
        for name in ("public/ns/orders", "public/ns/0x40000000_0x80000000"):
            shown = await run("move", name, "--to", to, "--url", url)
            assert (shown.exit_code, await served(cluster)) == (OK, {}), shown.output
            assert "no broker" in next(line for line in shown.stdout.splitlines() if line.endswith(to))
        none = await run("move", "public/ns/0x11111111_0x22222222", "--to", to, "--url", url)
        assert none.exit_code == FAILED, none.output
        assert len(read_decisions(tmp_path)) == before


async def test_what_cannot_be_moved_is_said(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        url = str(cluster.brokers[0].urls.web_url)
        nobody = await run("move", "public/ns/0x40000000_0x80000000", "--to", "nobody:1", "--url", url, "--yes")
        assert nobody.exit_code == FAILED
        assert "nobody:1 is not registered" in nobody.stderr
        assert nobody.stderr.count(cluster.brokers[0].broker_id) == 1, "the brokers are listed once"
        to = ("--to", cluster.brokers[0].broker_id, "--url", url, "--yes")
        assert (await run("move", "public/ns", *to)).exit_code == WRONG
        assert (await run("move", "public/ns/0x11111111_0x22222222", *to, "--timeout", "1")).exit_code == FAILED
        assert (await run("move", "public/ns/0_1", "--to", "a:1", "--url", "http://127.0.0.1:9")).exit_code == FAILED


async def test_a_journal_of_a_bundle_has_a_name_that_every_file_system_takes() -> None:
    assert str(journal_of_bundle("t/n/0x00000000_0x40000000")) == "move-t-n-0x00000000_0x40000000.journal"
    long = {journal_of_bundle(f"t/{'n' * 900}{last}/0x00000000_0x40000000") for last in "ab"}
    assert len(long) == 2
    assert all(len(path.name) < 255 for path in long)


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

        verified = await run("verify", str(plan), "--url", url)
        assert (verified.exit_code, "4 of 4 bundles are served" in verified.stdout) == (OK, True)

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


async def test_moves_are_undone_and_the_journal_says_why(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        await cluster.owner("persistent/public/ns/t")
        before = await served(cluster)
        ((bundle, source),) = before.items()
        (other,) = [broker.broker_id for broker in cluster.brokers if broker.broker_id != source]
        url, journal, back = str(cluster.brokers[0].urls.web_url), tmp_path / "j", tmp_path / "back.jsonl"
        words = ("move", bundle, "--to", other, "--url", url, "--journal", str(journal), "--why", "a new disk", "--yes")
        assert (await run(*words)).exit_code == OK
        assert {msgspec.json.decode(line)["why"] for line in journal.read_bytes().splitlines()} == {"a new disk"}
        undone = await run("undo", str(journal))
        back.write_text(undone.stdout)
        assert (await run("execute", str(back), "--url", url, "--yes")).exit_code == OK
        assert await served(cluster) == before
        told = await run("verify", str(back), "--url", url, "--json")
        assert [msgspec.json.decode(line)["is_done"] for line in told.stdout.splitlines()] == [True]

        (tmp_path / "none").touch()
        assert "no move" in (await run("undo", str(tmp_path / "none"))).stderr
        plan = tmp_path / "plan.jsonl"
        plan.write_bytes(
            msgspec.json.encode({"kind": "unload", "bundle": bundle, "source": source, "destination": other})
        )
        elsewhere = await run("verify", str(plan), "--url", url)
        assert (elsewhere.exit_code, source in elsewhere.stdout) == (FAILED, True)


async def test_another_process_stops_a_plan_and_it_can_be_gone_on_with(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        for number in range(20):
            await cluster.owner(f"persistent/public/ns/t{number}")
        before = await served(cluster)
        ids = {broker.broker_id for broker in cluster.brokers}
        moves = [
            {"kind": "unload", "bundle": bundle, "source": source, "destination": (ids - {source}).pop()}
            for bundle, source in before.items()
        ]
        plan, url = tmp_path / "plan.jsonl", str(cluster.brokers[0].urls.web_url)
        plan.write_bytes(b"\n".join(map(msgspec.json.encode, moves)))
        journal = move_journal(plan.with_name("plan.jsonl.journal"))
        none = await run("cancel", str(plan))
        assert (none.exit_code, "no process" in none.stderr) == (FAILED, True)

        words = ("-m", "pulsar_barycenter", "execute", str(plan), "--url", url, "--yes", "--per-minute", "1")
        slow = await asyncio.create_subprocess_exec(sys.executable, *words, stderr=asyncio.subprocess.PIPE)
        while not any(entry.state == "served" for entry in journal.read()):
            await asyncio.sleep(0.01)
        second = await run("execute", str(plan), "--url", url, "--yes")
        assert "another process" in second.stderr
        stopped = await run("cancel", str(plan), "--why", "lunch")
        assert (stopped.exit_code, "1 served" in stopped.stdout) == (OK, True)
        _, told = await slow.communicate()
        assert (slow.returncode, b"asked to stop: lunch" in told) == (FAILED, True)
        assert journal.read()[-1].state == "cancelled"

        rest = await run("execute", str(plan), "--url", url, "--yes", "--per-minute", "6000")
        assert rest.exit_code == OK, rest.output
        assert await served(cluster) == {move["bundle"]: move["destination"] for move in moves}


async def test_a_drained_broker_serves_nothing_until_it_may_again(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        for number in range(20):
            await cluster.owner(f"persistent/public/ns/t{number}")
        drained, other = cluster.brokers
        id_, url = drained.broker_id, str(drained.urls.web_url)
        await run("move", "public/ns/0x00000000_0x40000000", "--to", id_, "--url", url, "--yes")
        before = await served(cluster)
        words = ("drain", id_, "--url", url, "--journal", str(tmp_path / "j"), "--per-minute", "6000")
        count = list(before.values()).count(id_)

        shown = await run(*words)
        assert (shown.exit_code, await served(cluster)) == (OK, before), shown.output
        assert f"serves {count_of(count, 'bundle')} in addition to" in shown.stdout
        assert "nothing is done without --yes" in shown.stdout

        done = await run(*words, "--yes")
        assert done.exit_code == OK, done.output
        assert set((await served(cluster)).values()) == {other.broker_id}
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/unload")
        for number in range(20):
            assert (await cluster.owner(f"persistent/public/ns/t{number}")) is other
        again = await run(*words, "--yes")
        assert (again.exit_code, "serves no bundle" in again.stdout) == (OK, True)
        last = await run("drain", other.broker_id, "--url", url, "--yes")
        assert (last.exit_code, "no broker can take the bundles" in last.stderr) == (FAILED, True)

        assert "nothing is done" in (await run("undrain", id_, "--url", url)).stdout
        free = await run("undrain", id_, "--url", url, "--yes")
        assert free.exit_code == OK, free.output
        assert "is not drained" in (await run("undrain", id_, "--url", url, "--yes")).stderr
        for broker in cluster.brokers:
            settings = (await cluster.expect(200, "GET", "/admin/v2/brokers/configuration/runtime", at=broker)).json
            assert settings["barycenterDrainedBrokers"] == ""


async def test_who_cannot_be_drained_is_said(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        url = str(cluster.brokers[0].urls.web_url)
        for command, said in (("drain", "is not registered"), ("undrain", "is not registered")):
            assert (await run(command, "nobody:1", "--url", "http://127.0.0.1:9", "--yes")).exit_code == FAILED
            assert f"nobody:1 {said}" in (await run(command, "nobody:1", "--url", url, "--yes")).stderr
        here = cluster.brokers[0].broker_id
        for back in ((), ("--bring-back",)):
            unknown = await run("undrain", "nobody:1", *back, "--url", url, "--yes")
            assert (unknown.exit_code, unknown.stdout) == (FAILED, "")
            assert "nobody:1 is not registered; did you mean 127.0.0.1:" in unknown.stderr
            assert unknown.stderr.count(here) == 1
            free = await run("undrain", here, *back, "--url", url, "--yes")
            assert (free.exit_code, free.stdout) == (FAILED, "")
            assert f"{here} is not drained" in free.stderr


async def test_a_drain_is_seen_everywhere_and_undrain_brings_back_what_it_moved_away(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as cluster:
        for number in range(12):
            await cluster.owner(f"persistent/public/ns/t{number}")
        before = await served(cluster)
        broker = cluster.brokers[1]
        mine = {bundle for bundle, owner in before.items() if owner == broker.broker_id}
        if not mine:  # placed at random
            bundle = min(before)
            to = ("--to", broker.broker_id, "--url", str(broker.urls.web_url), "--yes")
            assert (await run("move", bundle, *to)).exit_code == OK
            mine = {bundle}
        url = ("--url", str(cluster.brokers[0].urls.web_url))
        drain = ("drain", broker.broker_id, *url, "--per-minute", "6000", "--why", "a new disk")

        shown = await run(*drain)
        assert shown.exit_code == OK, shown.output
        assert f"serves {count_of(len(mine), 'bundle')}" in shown.stdout
        after = next(line for line in shown.stdout.splitlines() if line.startswith(broker.broker_id + "  "))
        assert after.split()[1:3] == [str(len(mine)), "0"], "bundles now and after"
        assert (await run(*drain, "--yes")).exit_code == OK
        assert broker.broker_id not in (await served(cluster)).values()

        status = (await run("status", *url)).stdout
        assert f"{broker.broker_id} drained" in status.replace(" * ", " ")
        assert "a new disk" in status
        assert f"barycenter undrain {broker.broker_id} --bring-back --yes" in status
        doctor = await run("doctor", *url)
        assert (doctor.exit_code, "healthy, " in doctor.stdout) == (OK, True)
        assert "Drained by anonymous at " in " ".join(doctor.stdout.split())
        overview = (await cluster.expect(200, "GET", "/barycenter/v1/overview")).json
        assert (overview["drained"], overview["drainChange"]["by"]) == ([broker.broker_id], "anonymous")

        undrain = ("undrain", broker.broker_id, *url)
        said = await run(*undrain, "--yes")
        assert (said.exit_code, "--bring-back --yes" in said.stdout) == (OK, True)
        assert broker.broker_id not in (await served(cluster)).values()
        preview = await run(*undrain, "--bring-back")
        assert f"{count_of(len(mine), 'bundle')} left" in preview.stdout
        assert "nothing is done without --yes" in preview.stdout
        done = await run(*undrain, "--bring-back", "--yes", "--per-minute", "6000")
        assert done.exit_code == OK, done.output
        assert {bundle for bundle, owner in (await served(cluster)).items() if owner == broker.broker_id} >= mine
        kinds = [(each.kind, each.source) for each in read_decisions(tmp_path) if each.kind in ("drain", "undrain")]
        assert kinds == [("drain", broker.broker_id), ("undrain", broker.broker_id)]


async def test_the_journal_that_stays_is_named_with_the_way_back(tmp_path: Path) -> None:
    """Once a command, however many turns it takes; a preview writes and names none."""
    async with two_brokers(tmp_path / "data") as cluster:
        owner = await cluster.owner("persistent/public/ns/t")
        (bundle,) = await served(cluster)
        (other,) = [broker.broker_id for broker in cluster.brokers if broker is not owner]
        url = str(owner.urls.web_url)
        move, drain = journal_of_bundle(bundle), Path(f"drain-{other.replace(':', '-')}.journal")
        for journal, words in ((move, ("move", bundle, "--to", other)), (drain, ("drain", other))):
            preview = await run(*words, "--url", url)
            assert (preview.exit_code, ".journal" in preview.output, journal.exists()) == (OK, False, False)
            done = await run(*words, "--url", url, "--yes")
            named = f"journal: {journal}; to reverse the moves: barycenter undo {journal} > back.jsonl"
            assert (done.exit_code, done.stdout.count(named)) == (OK, 1), done.output
            assert journal.exists()
            helped = " ".join((await run(words[0], "--help")).stdout.split())
            assert "The file is kept" in helped
