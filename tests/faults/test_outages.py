"""Real brokers on a real etcd, of which one, two or all are killed and stopped, several times: how soon they serve.

.venv/bin/python -m pytest tests/faults/test_outages.py --outage-rounds 20 --fault-seed 7 --timeout 7200 -s
prints figures; the folder of the test then has a time line of each outage: what brokers and clients logged after it.
"""

from pathlib import Path
from typing import Final

import pytest

from support.etcd_server import etcd_server
from support.fault_run import CONFIGURATION
from support.fault_schedule import given_configuration
from support.outage_run import outage_run
from support.outages import Recovery, drawn_outages, recovery_row

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]

MANAGERS: Final[dict[str, dict[str, str]]] = {
    "modular": {},
    "extensible": {
        "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
    },
}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("manager", MANAGERS)
async def test_after_outages_of_all_brokers_every_bundle_is_served_and_nothing_is_lost(
    tmp_path: Path, manager: str, request: pytest.FixtureRequest
) -> None:
    """A client that asks all the time is served in every bundle within a session, besides what a start takes; those
    that were there all the time get through at their next try; every message arrives once acknowledged, in order."""
    seed, given = request.config.getoption("--fault-seed"), request.config.getoption("--fault-config")
    rounds = request.config.getoption("--outage-rounds")
    configuration = {**CONFIGURATION, **MANAGERS[manager], **given_configuration(given)}
    outages = drawn_outages(seed, rounds)
    recoveries: list[Recovery] = []
    try:
        with etcd_server(tmp_path) as etcd:
            async with outage_run(tmp_path, f"etcd:{etcd.url}/outages", configuration) as run:
                for number, outage in enumerate(outages, 1):
                    recovery, lines = await run.befall(outage)
                    recoveries.append(recovery)
                    (tmp_path / f"outage-{number}.txt").write_text("\n".join([str(recovery), *lines, ""]))
                    print(recovery)
    except Exception as error:
        told = "\n".join(f"{number}. {outage}" for number, outage in enumerate(outages[: len(recoveries) + 1], 1))
        again = f".venv/bin/python -m pytest tests/faults/test_outages.py -k {manager}"
        again += f" --outage-rounds {rounds} --fault-seed {seed}"
        again += "".join(f" --fault-config {each}" for each in given)
        error.add_note(f"the outages up to this one:\n{told}\nagain: {again}")
        raise
    print(recovery_row(manager, recoveries))
