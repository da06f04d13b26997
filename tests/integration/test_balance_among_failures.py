"""`barycenter balance` while a report source stops, and while the leader and another broker are killed."""

from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.balancer.judging.moves_seen import Whose
from pulsar_barycenter.balancer.options import Mode
from pulsar_barycenter.cli.asking.client import asking_client
from support.balanced_from_outside import Running, balanced

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]


class Sources:
    """Opens clients that get no load report from the brokers in `stopped`."""

    def __init__(self) -> None:
        self.stopped: set[str] = set()

    def open(self, **options: Any) -> AdminClient:
        client = asking_client(**options)
        call = client.call

        async def called(method: str, url: str, path: str, **others: Any) -> Any:
            if path.endswith("/load-report") and url.rstrip("/") in self.stopped:
                raise AdminRequestError(method, url, 0, "no answer")
            return await call(method, url, path, **others)

        client.call = called  # type: ignore[assignment,method-assign]
        return client


async def test_acting_goes_on_once_reports_are_back_or_a_killed_broker_is_gone(tmp_path: Path) -> None:
    async with balanced(tmp_path / "data", brokers=3) as found:
        await found.on_one_broker()
        before, sources = await found.shedding(), Sources()
        urls = {broker.broker_id: broker.web_url for broker in found.cluster.brokers}
        acting = Running(",".join(urls.values()), tmp_path / "state", Mode.ACT, sources.open)
        await acting.until_state("acting")

        sources.stopped = {urls[found.ids[2]]}
        paused = await acting.until_state("paused")
        assert "the oldest load of a broker is" in paused.held_up
        assert list(paused.failed) == [found.ids[2]]
        sources.stopped = set()
        await acting.until_state("acting")
        await acting.until(lambda: any("is served by" in line for line in acting.told), "it moves")
        await acting.until(lambda: not any(record.decided for record in acting.records[-2:]), "no move is under way")

        leader = (await found.admin.expect(200, "GET", "/admin/v2/brokers/leaderBroker"))["brokerId"]
        for left, victim in ((2, leader), (1, next(name for name in found.ids if name != leader))):
            await found.kill(victim)
            await acting.until(lambda left=left: acting.records[-1].brokers == left, f"{victim} is gone")  # type: ignore[misc]
            await acting.until_state("acting")
        await acting.until(  # the lease topic may have been on the victim
            lambda: acting.records[-1].held_up.startswith("1 broker with a current report"), "nothing moves"
        )

        def whose() -> set[Whose]:
            return {move.whose for record in acting.records for move in record.seen}

        await acting.until(lambda: Whose.FAILOVER in whose(), "bundles of the victims have other owners")
        assert Whose.FOREIGN not in whose()
        await acting.end()
        assert await found.shedding() == before
