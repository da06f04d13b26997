"""`barycenter balance` beside a cluster of two brokers under a stock client's traffic, in each of its modes."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.balancer.approval import Answer, answer, waiting
from pulsar_barycenter.balancer.facts import FactsError, Identity
from pulsar_barycenter.balancer.options import LEASE_TOPIC, Mode
from pulsar_barycenter.balancer.right_to_act import BalanceError
from pulsar_barycenter.balancer.state_folder import StateFolder
from pulsar_barycenter.operations.own_balancing import SHEDDING, SPLITTING
from pulsar_barycenter.operations.splitting import SplitEntry, SplitState, split_journal
from support.balanced_from_outside import CHANGES, STRATEGY, Balanced, Running, balanced
from support.stock_client import connect
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]


@contextmanager
def fenced(service_url: str) -> Iterator[None]:
    """Take the lease from its holder, as another process that the cluster admits."""
    client = connect(service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))
    try:
        client.create_producer(LEASE_TOPIC, access_mode=pulsar.ProducerAccessMode.ExclusiveWithFencing)
        yield
    finally:
        client.close()


async def killed_while_it_moves(found: Balanced, state: Path) -> None:
    """Start `barycenter balance --mode act` and kill it while the last move in its journal is under way."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "balance", "--url", found.url, "--state", str(state)),
        *("--mode", "act", "--strategy", STRATEGY, *(word for change in CHANGES for word in ("--set", change))),
        *("--interval", "1", "--per-minute", "600"),
        stdout=asyncio.subprocess.DEVNULL,
        env=os.environ,
    )
    journal = state / "moves.journal"

    def has_begun() -> bool:
        """Return whether the last whole line of the journal is the begin of a move."""
        lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
        return bool(lines) and lines[-1].endswith("\n") and json.loads(lines[-1])["state"] == "begun"

    def is_under_way() -> bool:
        """Return whether a move is; the process then stands still."""
        if not has_begun():
            return False
        process.send_signal(signal.SIGSTOP)
        if has_begun():
            return True
        process.send_signal(signal.SIGCONT)
        return False

    # a move takes some hundredths of a second: look more often than other waits do
    await asyncio.to_thread(until, is_under_way, "a move begins", every_s=0.001)
    process.send_signal(signal.SIGKILL)
    await process.wait()


def states(state: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state / "moves.journal").read_text().splitlines()]


async def splits_and_gives_splitting_back(found: Balanced, state: Path) -> None:
    """Split what is too large by limits of this run alone, after a split that a killed process left under way."""
    before, bundles = await found.shedding(SPLITTING), await found.bundles()
    state.mkdir()
    left = SplitEntry(at=int(time.time() * 1000), by="x", bundle=bundles[0], broker="b", state=SplitState.BEGUN)
    split_journal(state / "splits.journal").append(left)
    limits = ("loadBalancerNamespaceBundleMaxTopics=1",)
    splitting = Running(found.url, state, Mode.ACT, changes=limits)
    await splitting.until_state("acting")
    assert any("an earlier process left 1 split unfinished" in line for line in splitting.told)
    assert await found.shedding(SPLITTING) == ({"false"}, "false")
    await splitting.until(
        lambda: any(record.splits for record in splitting.records[:-2]), "a round splits, two more go"
    )
    await splitting.end()
    split = [split.bundle for record in splitting.records for split in record.splits]
    assert not {bundles[0], *split} & set(await found.bundles())
    assert len(split) == len(set(split)) <= 5, "six within an hour, with the one before"
    ends = [line.partition(": ")[2] for line in splitting.told if line.startswith("split of ")]
    assert [end.partition(":")[0] for end in ends] == ["split"] * (1 + len(split))
    assert not any("failed" in line for line in splitting.told), "what was split does not move"
    assert "topics" in splitting.records[0].splits[0].sentence
    log = json.dumps(await found.admin.expect(200, "GET", "/barycenter/v1/decision-log?kind=split"))
    assert "barycenter balance: " in log, "brokers know why"
    assert await found.shedding(SPLITTING) == before
    await found.more_arrive()


def is_at_rest(acting: Running, state: Path) -> bool:
    """Return whether a round after the last move decided none: a move of a person would meet one of the balancer."""
    last, newest = states(state)[-1], acting.records[-1]
    return last["state"] == "served" and newest.at > last["at"] and not newest.decided


async def test_each_mode_does_what_it_may_and_gives_back_what_it_took(tmp_path: Path) -> None:
    """Observing, then killed while it acts and started again, a person's move, a person's switch, and an approval."""
    async with balanced(tmp_path / "data") as found:
        first, before = await found.on_one_broker(), await found.shedding()
        assert before == ({"true"}, None)
        owners = await found.owners()

        observer = Running(found.url, tmp_path / "seen", Mode.OBSERVE)
        await observer.until(lambda: any(record.decided for record in observer.records[:-2]), "two rounds more")
        await observer.end()
        assert (await found.owners(), await found.shedding()) == (owners, before)
        served = {await found.admin.bundle_range(topic) for topic in found.topics}
        assert observer.records[-1].bundles == len(served), "without those of the brokers themselves"
        decided = [move for record in observer.records for move in record.decided]
        assert {move.source for move in decided} == {first}
        assert len({move.bundle for move in decided}) == len(decided), "a bundle stays where it would be"
        score = observer.records[-1].score
        assert (score.cluster.moves, score.ours.moves) == (0, len(decided))

        state = tmp_path / "state"
        await killed_while_it_moves(found, state)
        assert await found.shedding() == ({"false"}, "false")
        acting = Running(found.url, state, Mode.ACT)
        await acting.until_state("acting")
        assert any("an earlier process left 1 move unfinished" in line for line in acting.told)
        await acting.until(
            lambda: is_at_rest(acting, state), "what was under way is served, and nothing more is decided"
        )
        assert await found.is_spread()
        decisions = await found.admin.expect(200, "GET", "/barycenter/v1/decision-log?kind=unload")
        assert f"[{STRATEGY}]" in json.dumps(decisions), "brokers know why"
        await found.more_arrive()
        topic = next(topic for topic, owner in (await found.owners()).items() if owner == first)
        await found.move(topic, found.ids[1])
        paused = await acting.until_state("paused")
        assert f"from {first} to {found.ids[1]}" in paused.held_up
        standby = Running(found.url, tmp_path / "standby", Mode.ACT)
        await standby.until_state("standby")
        await acting.end()
        assert await found.shedding() == before
        await standby.until_state("acting")
        assert await found.shedding() == ({"false"}, "false")

        with fenced(found.service_url):
            with pytest.raises(BalanceError, match="another process holds the lease"):
                await standby.task
            assert await found.shedding() == ({"false"}, "false"), "who lost the lease changes nothing any more"

        again = Running(found.url, state, Mode.ACT)
        await again.until_state("acting")
        assert any(f"gets back what it had: {SHEDDING} was true" in line for line in again.told), (
            "the lease has what was there"
        )
        await found.admin.expect(200, "POST", f"/admin/v2/brokers/configuration/{SHEDDING}/true")
        await again.until_state("handed back")
        await again.end()
        assert await found.shedding() == ({"true"}, "true"), "what a person switched on stays on"

        await found.on_one_broker()
        advising = Running(found.url, tmp_path / "advised", Mode.ADVISE)
        await advising.until_state("advising")
        await advising.until(lambda: (tmp_path / "advised" / "proposal.json").exists(), "a round is proposed")
        assert not await found.is_spread()
        proposal = waiting(tmp_path / "advised", 0)
        answer(tmp_path / "advised", Answer(proposal=proposal.name, is_approved=True, by="ann", at=1))
        await advising.until(lambda: any("is served by" in line for line in advising.told), "it is carried out")
        await advising.end()
        assert await found.shedding() == ({"true"}, "true")
        assert {entry["by"] for entry in states(tmp_path / "advised")} == {"barycenter balance, approved by ann"}

        await splits_and_gives_splitting_back(found, tmp_path / "split")

        StateFolder(tmp_path / "other").check(Identity(cluster="standalone", store="zk:elsewhere"))
        with pytest.raises(FactsError, match="zk:elsewhere"):
            await Running(found.url, tmp_path / "other", Mode.ACT).task
