"""The folder of the ledgers as this machine sees it. What is tried in it is removed again."""

import os

from pulsar_barycenter.doctor.picture import LedgersView
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.folder_needs import judge
from pulsar_barycenter.ledger.files.folder_probe import observe
from pulsar_barycenter.ledger.folder_identity import identity_of


def read_ledgers(folder: str, *, several_machines: bool) -> LedgersView:
    """Return what a broker of this machine would find of the folder when it starts; a folder is not made.

    `several_machines` says that the metadata store serves brokers of several machines.
    """
    if not os.path.isdir(folder):
        return LedgersView(folder, problems=(("there is no such folder", "mount it, or name the right one"),))
    try:
        identity = identity_of(folder) or ""
        problems = judge(observe(folder), several_machines=several_machines).problems
    except (LedgerError, OSError) as error:
        return LedgersView(folder, problems=((str(error), "mend its rights; run the doctor as the brokers' user"),))
    return LedgersView(folder, identity, tuple((problem.why, problem.mend) for problem in problems))
