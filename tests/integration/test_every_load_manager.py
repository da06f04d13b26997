"""The same steps and the same promises for every load manager: real processes, stock clients, nothing else.

.venv/bin/python -m pytest tests/integration -k every_load_manager --rehearsal-rounds 20 --rehearsal-topics 10 \
    --rehearsal-seed 7 --timeout 7200      (the long form)
"""

from pathlib import Path

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from support.cluster_rehearsal import Manager, Size, rehearsal

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
EXTENSIBLE = {"loadManagerClassName": ManagerKind.EXTENSIBLE.class_name}
MANAGERS = {
    "modular": Manager({"loadManagerClassName": ManagerKind.MODULAR.class_name}),
    "simple": Manager({"loadManagerClassName": ManagerKind.SIMPLE.class_name}),
    "extensible, records in a topic": Manager(EXTENSIBLE, hands_over=True, distrusts_store=True),
    "extensible, records in the store": Manager(
        {
            **EXTENSIBLE,
            "loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
        },
        hands_over=True,
        distrusts_store=True,
    ),
}


@pytest.fixture
def size(request: pytest.FixtureRequest) -> Size:
    option = request.config.getoption
    return Size(*(option(f"--rehearsal-{name}") for name in ("rounds", "topics", "seed")))


@pytest.mark.drawn(1)
@pytest.mark.parametrize("manager", MANAGERS.values(), ids=MANAGERS)
async def test_clients_lose_nothing_and_one_broker_serves_at_a_time(
    tmp_path: Path, manager: Manager, size: Size
) -> None:
    """Look-ups, unloads, a split, kills, standstills and restarts, of owners and of leaders, one after the other.

    Of what is acknowledged nothing is lost or out of order, no two brokers serve a bundle at once, and after each step
    every producer gets through.
    """
    async with rehearsal(tmp_path, manager, size) as rehearsed:
        await rehearsed.play()
