"""Real brokers on real stores, with real clients: processes are killed and stopped, the way to the store is cut.

.venv/bin/python -m pytest tests/faults --faults 100 --fault-seed 7 --timeout 7200 -s      (the long form, with figures)
.venv/bin/python -m pytest tests/faults/test_faults.py --full-form --fault-store bookies --faults 100 -s     (one store)
.venv/bin/python -m pytest tests/faults -k "sqlite or etcd" --fault-config leaderOnlyMetadataWrites=true  (another mode)
"""

from pathlib import Path

import pytest

from support.fault_run import fault_run
from support.fault_schedule import KINDS, SHORT_FORM, Outcome, drawn, figures, given_configuration, shares
from support.fault_stores import running_store
from support.maven import PeerUnavailableError
from support.short_forms import has_full_form, params

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]


@pytest.mark.parametrize("store", params({name: name for name in KINDS}, short=SHORT_FORM))
async def test_no_fault_loses_or_reorders_what_was_acknowledged_or_has_two_serve(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """Whatever befalls owners, leaders and stores, every message that clients send arrives once acknowledged, in order;
    of two terms of a bundle the one has ended before the other begins; and after each fault all get through again. On
    bookies, all entries of all ledgers can be read at the end, and only what a lost broker did not finish is unlisted.
    """
    option = request.config.getoption
    seed, given = option("--fault-seed"), option("--fault-config")
    stores = option("--fault-store") or (KINDS if has_full_form(request.config) else SHORT_FORM)
    configuration = given_configuration(given)
    faults = drawn(seed, KINDS[store], shares(option("--faults"), stores)[store])
    if not faults:
        pytest.skip("none of the faults befalls this store; --faults and --fault-store say how many befall which")
    outcomes: list[Outcome] = []
    try:
        with running_store(store, tmp_path / "store") as running:
            async with fault_run(tmp_path / "data", running, seed, configuration) as run:
                for fault in faults:
                    outcome = await run.befall(fault)
                    outcomes += [outcome]
    except PeerUnavailableError as error:
        if option("--peer-required"):
            raise
        pytest.skip(str(error))
    except Exception as error:
        told = "\n".join(f"{number}. {fault}" for number, fault in enumerate(faults[: len(outcomes) + 1], 1))
        again = f".venv/bin/python -m pytest tests/faults/test_faults.py --full-form --fault-store {store}"
        again += f" --faults {len(faults)} --fault-seed {seed}"
        again += "".join(f" --fault-config {each}" for each in given)
        error.add_note(f"the faults up to this one:\n{told}\nagain: {again}")
        raise
    finally:
        print("\n".join(figures(outcomes)))
