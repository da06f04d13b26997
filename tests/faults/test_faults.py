"""Real brokers on real stores, with real clients: processes are killed and stopped, the way to the store is cut.

.venv/bin/python -m pytest tests/faults --faults 100 --fault-seed 7 --timeout 7200 -s      (the long form, with figures)
.venv/bin/python -m pytest tests/faults -k "sqlite or etcd" --fault-config leaderOnlyMetadataWrites=true  (another mode)
"""

from pathlib import Path

import pytest

from support.fault_run import fault_run, running_store
from support.fault_schedule import KINDS, Outcome, drawn, figures, given_configuration, shares

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]


@pytest.mark.parametrize("store", KINDS)
async def test_no_fault_loses_or_reorders_what_was_acknowledged_or_has_two_serve(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """Whatever befalls owners, leaders and stores, every message that clients send arrives once acknowledged, in order;
    of two terms of a bundle the one has ended before the other begins; and after each fault all get through again."""
    seed, given = request.config.getoption("--fault-seed"), request.config.getoption("--fault-config")
    configuration = given_configuration(given)
    faults = drawn(seed, KINDS[store], shares(request.config.getoption("--faults"))[store])
    outcomes: list[Outcome] = []
    try:
        with running_store(store, tmp_path / "store") as running:
            async with fault_run(tmp_path / "data", running, seed, configuration) as run:
                for fault in faults:
                    outcome = await run.befall(fault)
                    outcomes += [outcome]
    except Exception as error:
        told = "\n".join(f"{number}. {fault}" for number, fault in enumerate(faults[: len(outcomes) + 1], 1))
        count = request.config.getoption("--faults")
        again = f".venv/bin/python -m pytest tests/faults -k {store} --faults {count} --fault-seed {seed}"
        again += "".join(f" --fault-config {each}" for each in given)
        error.add_note(f"the faults up to this one:\n{told}\nagain: {again}")
        raise
    print("\n".join(figures(outcomes)))
