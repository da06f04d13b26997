"""`barycenter balance` beside clusters of Barycenter, in runs too long for the short form; no Java is needed."""

from pathlib import Path

import pytest

from pulsar_barycenter.balancer.options import Mode
from support.balanced_from_outside import Running, balanced

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.full_form, pytest.mark.xdist_group("cluster")]


async def test_errors_of_clients_after_its_moves_pause_it_until_they_end(tmp_path: Path) -> None:
    async with balanced(tmp_path / "data") as found:
        await found.on_one_broker()
        acting = Running(found.url, tmp_path / "state", Mode.ACT)
        await acting.until(lambda: any("is served by" in line for line in acting.told), "a bundle has moved")
        await acting.until(lambda: acting.records[-1].client_errors is not None, "moves are judged by errors")
        path = f"/lookup/v2/topic/{found.topics[0].replace('://', '/')}?listenerName=nowhere"
        while acting.records[-1].state != "paused":
            status, _ = await found.admin.call("GET", path)
            assert status >= 400
        assert "clients get more errors after moves of this program" in acting.records[-1].held_up
        await acting.until_state("acting")
        assert not any("errors of clients" in line for line in acting.told)
        await acting.end()


async def test_transfer_shedder_moves_bundles_of_brokers_that_publish_no_averages(tmp_path: Path) -> None:
    changes = ("loadBalancerSheddingConditionHitCountThreshold=0", "loadBalancerHistoryResourcePercentage=0")
    async with balanced(tmp_path / "data") as found:
        await found.on_one_broker()
        acting = Running(found.url, tmp_path / "state", Mode.ACT, changes=changes, strategy="TransferShedder")
        # brokers measure their CPU once a minute
        await acting.until(
            lambda: any("is served by" in line for line in acting.told), "a bundle has moved", within_s=180
        )
        assert await found.is_spread()
        assert any("[TransferShedder]" in record.why for record in acting.records)
        await acting.end()
