"""Tests the ledger folder from this machine; files that the test creates are deleted."""

import os

from pulsar_barycenter.doctor.picture import LedgersView
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.folder_needs import judge
from pulsar_barycenter.ledger.files.folder_probe import observe
from pulsar_barycenter.ledger.folder_identity import identity_of


def read_ledgers(folder: str, *, several_machines: bool) -> LedgersView:
    """Return what a broker on this machine would find in the folder at its start; the folder is not created.

    `several_machines` says that the metadata store serves brokers on several machines.
    """
    if not os.path.isdir(folder):
        return LedgersView(folder, problems=(("the folder does not exist", "mount it, or give the right path"),))
    try:
        identity = identity_of(folder) or ""
        problems = judge(observe(folder), several_machines=several_machines).problems
    except (LedgerError, OSError) as error:
        return LedgersView(
            folder, problems=((str(error), "correct its permissions; run the doctor as the brokers' user"),)
        )
    return LedgersView(folder, identity, tuple((problem.why, problem.mend) for problem in problems))
